package access

import (
	"context"
	"errors"
	"fmt"

	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/crypto/bcrypt"

	"toolrounds/shared/fault"
)

// The texts of refusals about passwords and sessions.
const (
	textBadSignin   = "The email or password provided is incorrect. Please check for typos and try logging in again."
	textBadPassword = "The password provided is incorrect. Please check for typos and try again."
	textLong        = "Uh-oh! The password you entered is too long. Please make sure your password is less than 72 bytes long."
	textNoPassword  = "The password must not be empty."
	textBadRequest  = "Invalid authentication request."
)

// nobody is the hash that is compared with when there is no such account, so that the answer takes as long.
const nobody = "$2a$10$7EqJtq98hPqEX7fNZaFWoOhi5B0B1d3y9z6Zr0wq0m2aV0nqkQm7W"

// Session is a signed proof of who somebody is.
type Session struct {
	Token     string
	ExpiresAt int64 // Unix seconds; 0: never
}

type claims struct {
	ID    string `json:"id"`
	Type  string `json:"typ"`
	Stamp string `json:"session_stamp"`
	jwt.RegisteredClaims
}

func (a *Accounts) hash(password string) (string, error) {
	if password == "" {
		return "", fault.New(fault.Invalid, textNoPassword)
	}
	if len(password) > 72 { // bcrypt looks no further
		return "", fault.New(fault.Invalid, textLong)
	}
	cost := a.opts.BcryptCost
	if cost == 0 {
		cost = bcrypt.DefaultCost
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(password), cost)
	if err != nil {
		return "", fmt.Errorf("hash password: %w", err)
	}
	return string(hash), nil
}

// SignIn checks an address and password. Whatever is wrong is the same fault.Invalid.
func (a *Accounts) SignIn(ctx context.Context, email, password string) (User, error) {
	u, ok, err := a.byEmail(ctx, email)
	if err != nil {
		return User{}, err
	}
	hash := u.password
	if !ok {
		hash = nobody
	}
	if bcrypt.CompareHashAndPassword([]byte(hash), []byte(password)) != nil || !ok {
		return User{}, fault.New(fault.Invalid, textBadSignin)
	}
	return a.seen(ctx, u), nil
}

// ChangePassword changes an account's own password and ends its sessions. A wrong old one is fault.Invalid.
func (a *Accounts) ChangePassword(ctx context.Context, u User, old, password string) error {
	if bcrypt.CompareHashAndPassword([]byte(u.password), []byte(old)) != nil {
		return fault.New(fault.Invalid, textBadPassword)
	}
	_, err := a.Update(ctx, u.ID, Edit{Password: &password})
	return err
}

// Session makes a session for an account, lasting as long as the settings say.
func (a *Accounts) Session(ctx context.Context, u User) (Session, error) {
	s, err := a.Settings(ctx)
	if err != nil {
		return Session{}, err
	}
	key, err := a.keys.Signing(ctx)
	if err != nil {
		return Session{}, fmt.Errorf("signing key: %w", err)
	}
	now := a.opts.Now()
	c := claims{ID: u.ID, Type: "session", Stamp: u.stamp, RegisteredClaims: jwt.RegisteredClaims{ID: NewID(), IssuedAt: jwt.NewNumericDate(now)}}
	var session Session
	if lasts := s.session(); lasts > 0 {
		c.ExpiresAt = jwt.NewNumericDate(now.Add(lasts))
		session.ExpiresAt = c.ExpiresAt.Unix()
	}
	session.Token, err = jwt.NewWithClaims(jwt.SigningMethodHS256, c).SignedString(key)
	if err != nil {
		return Session{}, fmt.Errorf("sign session: %w", err)
	}
	return session, nil
}

// verify checks a token's signature, kind and time. What is wrong with it is fault.Unauthorized.
func (a *Accounts) verify(ctx context.Context, token string) (claims, error) {
	key, err := a.keys.Signing(ctx)
	if err != nil {
		return claims{}, fmt.Errorf("signing key: %w", err)
	}
	var c claims
	_, err = jwt.ParseWithClaims(token, &c, func(*jwt.Token) (any, error) { return key, nil },
		jwt.WithValidMethods([]string{"HS256"}), jwt.WithTimeFunc(a.opts.Now))
	if err == nil && (!usable(c.ID) || c.Type != "session") {
		err = errors.New("not a session")
	}
	if err != nil {
		return claims{}, fault.Wrap(fault.Unauthorized, fault.TextUnauth, err)
	}
	return c, nil
}
