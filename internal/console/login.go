package console

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// tokenCookie is the name of the cookie that contains the token from the login page.
	tokenCookie = "heartwood-token"
	// tokenBytesMax is the maximum size of a token that fits into a cookie. Browsers limit a cookie's
	// name, value and attributes to 4,096 bytes.
	tokenBytesMax = 3800
	// headerTokenMax is the maximum size of a token in the Authorization header.
	headerTokenMax = 64 << 10
)

// loginPage is the form that asks for a token.
type loginPage struct{ Fault string }

// validToken reports whether a text has the syntax of a token (token68 in RFC 7235).
func validToken(text string) bool {
	return text != "" && len(text) <= headerTokenMax && strings.IndexFunc(text, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') &&
			!strings.ContainsRune("-._~+/=", r)
	}) < 0
}

// loginForm serves the page that asks for a token.
func (s *Site) loginForm(w http.ResponseWriter, r *http.Request) {
	s.render(w, r, view{Template: "login", Title: "Log in", Body: loginPage{}})
}

// login verifies a token and stores it in the browser as a cookie. The cookie has no Path
// attribute, because the console does not know its path behind a proxy that removes a prefix.
// Browsers then send the cookie only to the path of this page and the paths below it (RFC 6265,
// 5.1.4), so other servers behind the proxy do not receive it.
func (s *Site) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 2*tokenBytesMax)
	// The call fails only if w is not a connection, as in tests.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(requestTimeout))
	token := strings.TrimSpace(r.PostFormValue("token"))
	page := loginPage{}
	var name string
	err := ErrToken
	switch {
	case len(token) > tokenBytesMax:
		page.Fault = "The token is too long for a cookie. Use an authenticating proxy that sends it " +
			"in the header Authorization."
	case !validToken(token):
		page.Fault = "This is not a token."
	default:
		if name, err = s.opts.Authority.User(r.Context(), token); errors.Is(err, ErrToken) {
			page.Fault = "Kubernetes does not accept this token: it has expired, or is for another " +
				"audience."
		} else if err != nil {
			page.Fault = "The API server of Kubernetes cannot verify the token now; try again later."
		}
	}
	if err != nil {
		s.opts.Logger.Debug("login refused", "remote", r.RemoteAddr, "error", err)
		s.render(w, r, view{Template: "login", Title: "Log in", Body: page,
			Status: http.StatusUnauthorized})
		return
	}
	s.opts.Logger.Info("login", "audit", true, "user", name, "remote", r.RemoteAddr)
	http.SetCookie(w, &http.Cookie{Name: tokenCookie, Value: token, HttpOnly: true, Secure: true,
		SameSite: http.SameSiteStrictMode})
	redirect(w, "./")
}

// logout makes the browser delete the token's cookie.
func (s *Site) logout(w http.ResponseWriter, _ *http.Request) {
	http.SetCookie(w, &http.Cookie{Name: tokenCookie, MaxAge: -1, HttpOnly: true, Secure: true,
		SameSite: http.SameSiteStrictMode})
	redirect(w, "login")
}

// clusterPath returns the relative URL of a LogCluster's console.
func clusterPath(name ClusterName) string {
	return "clusters/" + url.PathEscape(name.Namespace) + "/" + url.PathEscape(name.Name) + "/"
}
