package live

import (
	"context"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"toolrounds/shared/fault"
	"toolrounds/shared/run"
)

// ticketType tells tickets from sessions, which the same key signs.
const ticketType = "call"

type ticketClaims struct {
	Type   string     `json:"typ"`
	Ticket run.Ticket `json:"call"`
	jwt.RegisteredClaims
}

// Ticket implements run.Broker: a signed token that is good for one call, for as long as the call may last.
func (s *Service) Ticket(ctx context.Context, t run.Ticket, lasts time.Duration) (string, error) {
	key, err := s.Keys.Signing(ctx)
	if err != nil {
		return "", fmt.Errorf("signing key: %w", err)
	}
	c := ticketClaims{Type: ticketType, Ticket: t, RegisteredClaims: jwt.RegisteredClaims{ExpiresAt: jwt.NewNumericDate(s.Now().Add(lasts))}}
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, c).SignedString(key)
	if err != nil {
		return "", fmt.Errorf("sign ticket: %w", err)
	}
	return token, nil
}

// Redeem checks a ticket and tells the call that it names. What is wrong with it is fault.Unauthorized.
func (s *Service) Redeem(ctx context.Context, token string) (run.Ticket, error) {
	key, err := s.Keys.Signing(ctx)
	if err != nil {
		return run.Ticket{}, fmt.Errorf("signing key: %w", err)
	}
	var c ticketClaims
	_, err = jwt.ParseWithClaims(token, &c, func(*jwt.Token) (any, error) { return key, nil },
		jwt.WithValidMethods([]string{"HS256"}), jwt.WithTimeFunc(s.Now), jwt.WithExpirationRequired())
	if err != nil || c.Type != ticketType || c.Ticket.Run == "" {
		return run.Ticket{}, fault.Wrap(fault.Unauthorized, fault.TextUnauth, err)
	}
	return c.Ticket, nil
}
