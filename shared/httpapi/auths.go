package httpapi

import (
	"net/http"
	"time"

	"toolrounds/shared/access"
	"toolrounds/shared/fault"
)

// textBadRequest is all that a malformed form about accounts is told.
const textBadRequest = "Invalid authentication request."

// malformed replaces the list of wrong fields.
func malformed(err error) error {
	return instead(err, fault.Unprocessed, fault.Unprocessed, textBadRequest)
}

func (s *server) signIn(w http.ResponseWriter, r *http.Request) error {
	f, err := readForm(r)
	if err != nil {
		return malformed(err)
	}
	email, password := f.text("email"), f.text("password")
	if err := f.err(); err != nil {
		return malformed(err)
	}
	u, err := s.Accounts.SignIn(r.Context(), email, password)
	if err != nil {
		return err
	}
	return s.welcome(w, r, u)
}

func (s *server) signUp(w http.ResponseWriter, r *http.Request) error {
	f, err := readForm(r)
	if err != nil {
		return malformed(err)
	}
	name, email, password := f.text("name"), f.text("email"), f.text("password")
	if err := f.err(); err != nil {
		return malformed(err)
	}
	u, err := s.Accounts.SignUp(r.Context(), name, email, password)
	if err != nil {
		return err
	}
	return s.welcome(w, r, u)
}

// welcome answers with a new session, in the body and as a cookie.
func (s *server) welcome(w http.ResponseWriter, r *http.Request, u access.User) error {
	state(r).caller = access.Caller{User: u}
	session, err := s.Accounts.Session(r.Context(), u)
	if err != nil {
		return err
	}
	permissions, err := s.Accounts.Permissions(r.Context(), u)
	if err != nil {
		return err
	}
	s.setCookie(w, r, session)
	a := about(u)
	a["profile_image_url"] = "/api/v1/users/" + u.ID + "/profile/image"
	a["token"], a["token_type"], a["expires_at"], a["permissions"] = session.Token, "Bearer", expiry(session.ExpiresAt), permissions
	return answer(w, 200, a)
}

// about is the account as the routes about accounts show it.
func about(u access.User) map[string]any {
	a := u.Brief()
	a["profile_image_url"] = u.ProfileImageURL
	return a
}

func expiry(at int64) any {
	if at == 0 {
		return nil
	}
	return at
}

func (s *server) setCookie(w http.ResponseWriter, r *http.Request, session access.Session) {
	c := &http.Cookie{Name: "token", Value: session.Token, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: secure(r)}
	if session.ExpiresAt != 0 {
		c.MaxAge = int(max(session.ExpiresAt-s.Now().Unix(), 1))
	}
	http.SetCookie(w, c)
}

// secure tells whether the client's own connection is encrypted.
func secure(r *http.Request) bool {
	return r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https"
}

func (s *server) signOut(w http.ResponseWriter, r *http.Request) error {
	http.SetCookie(w, &http.Cookie{Name: "token", Path: "/", MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteLaxMode,
		Secure: secure(r), Expires: time.Unix(1, 0)})
	return answer(w, 200, map[string]any{"status": true})
}

func (s *server) session(w http.ResponseWriter, r *http.Request) error {
	c := s.caller(r)
	permissions, err := s.Accounts.Permissions(r.Context(), c.User)
	if err != nil {
		return err
	}
	s.setCookie(w, r, access.Session{Token: c.Token, ExpiresAt: c.ExpiresAt})
	a := about(c.User)
	for _, k := range []string{"status_emoji", "status_message", "status_expires_at", "bio", "gender", "date_of_birth"} {
		a[k] = c.User.Profile[k]
	}
	a["token"], a["token_type"], a["expires_at"], a["permissions"] = c.Token, "Bearer", expiry(c.ExpiresAt), permissions
	return answer(w, 200, a)
}

func (s *server) addAccount(w http.ResponseWriter, r *http.Request) error {
	f, err := readForm(r)
	if err != nil {
		return malformed(err)
	}
	name, email, password := f.text("name"), f.text("email"), f.text("password")
	role := f.textOrNil("role")
	if err := f.err(); err != nil {
		return malformed(err)
	}
	if role == nil {
		role = new(string)
	}
	u, err := s.Accounts.Add(r.Context(), name, email, password, *role)
	if err != nil {
		return err
	}
	session, err := s.Accounts.Session(r.Context(), u)
	if err != nil {
		return err
	}
	a := about(u)
	a["profile_image_url"] = "/api/v1/users/" + u.ID + "/profile/image"
	a["token"], a["token_type"] = session.Token, "Bearer"
	return answer(w, 200, a)
}

func (s *server) readKey(w http.ResponseWriter, r *http.Request) error {
	key, err := s.Accounts.Key(r.Context(), s.caller(r).User.ID)
	if err != nil {
		return err
	}
	return answer(w, 200, map[string]any{"api_key": key})
}

func (s *server) replaceKey(w http.ResponseWriter, r *http.Request) error {
	key, err := s.Accounts.ReplaceKey(r.Context(), s.caller(r).User)
	if err != nil {
		return err
	}
	return answer(w, 200, map[string]any{"api_key": key})
}

func (s *server) deleteKey(w http.ResponseWriter, r *http.Request) error {
	if err := s.Accounts.DeleteKey(r.Context(), s.caller(r).User.ID); err != nil {
		return err
	}
	return answer(w, 200, true)
}

func (s *server) updateProfile(w http.ResponseWriter, r *http.Request) error {
	f, err := readForm(r)
	if err != nil {
		return malformed(err)
	}
	name := f.text("name")
	e := access.Edit{Name: &name, Image: f.textOrNil("profile_image_url"), Profile: map[string]any{}}
	for _, k := range []string{"bio", "gender", "date_of_birth"} {
		if _, given := f.values[k]; given {
			e.Profile[k] = nil
			if text := f.textOrNil(k); text != nil {
				e.Profile[k] = *text
			}
		}
	}
	if err := f.err(); err != nil {
		return malformed(err)
	}
	u, err := s.Accounts.Update(r.Context(), s.caller(r).User.ID, e)
	if err != nil {
		return err
	}
	return answer(w, 200, about(u))
}

func (s *server) updateTimezone(w http.ResponseWriter, r *http.Request) error {
	f, err := readForm(r)
	if err != nil {
		return malformed(err)
	}
	zone := f.text("timezone")
	if err := f.err(); err != nil {
		return malformed(err)
	}
	c := s.caller(r)
	if c.User.Profile["timezone"] != zone { // sent at every sign-in
		if _, err := s.Accounts.Update(r.Context(), c.User.ID, access.Edit{Profile: map[string]any{"timezone": zone}}); err != nil {
			return err
		}
	}
	return answer(w, 200, map[string]any{"status": true})
}

func (s *server) updatePassword(w http.ResponseWriter, r *http.Request) error {
	f, err := readForm(r)
	if err != nil {
		return malformed(err)
	}
	old, password := f.text("password"), f.text("new_password")
	if err := f.err(); err != nil {
		return malformed(err)
	}
	if err := s.Accounts.ChangePassword(r.Context(), s.caller(r).User, old, password); err != nil {
		return err
	}
	return answer(w, 200, true)
}

// adminDetails tells a pending account whom to ask.
func (s *server) adminDetails(w http.ResponseWriter, r *http.Request) error {
	settings, err := s.Accounts.Settings(r.Context())
	if err != nil {
		return err
	}
	if settings.Admin["SHOW_ADMIN_DETAILS"] != true {
		return fault.New(fault.Invalid, "[ERROR: Action not allowed]")
	}
	details := map[string]any{"name": nil, "email": settings.Admin["ADMIN_EMAIL"]}
	id, err := s.Accounts.First(r.Context())
	if err != nil {
		return err
	}
	if id != "" {
		u, err := s.Accounts.User(r.Context(), id)
		if err != nil {
			return err
		}
		details["name"] = u.Name
		if email, _ := details["email"].(string); email == "" {
			details["email"] = u.Email
		}
	}
	return answer(w, 200, details)
}

func (s *server) adminConfig(w http.ResponseWriter, r *http.Request) error {
	settings, err := s.Accounts.Settings(r.Context())
	if err != nil {
		return err
	}
	return answer(w, 200, settings.Admin)
}

func (s *server) changeAdminConfig(w http.ResponseWriter, r *http.Request) error {
	f, err := readForm(r)
	if err != nil {
		return malformed(err)
	}
	settings, err := s.Accounts.Change(r.Context(), f.values, nil)
	if err != nil {
		return err
	}
	return answer(w, 200, settings.Admin)
}
