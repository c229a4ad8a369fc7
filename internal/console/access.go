package console

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"
)

// ErrToken means that Kubernetes does not accept the token.
var ErrToken = errors.New("Kubernetes does not accept the token") //nolint:staticcheck // a name

// ErrForbidden means that Kubernetes does not permit the user to make the request.
var ErrForbidden = errors.New("Kubernetes does not permit this") //nolint:staticcheck // a name

// ClusterName is the name of a LogCluster.
type ClusterName struct{ Namespace, Name string }

func (n ClusterName) String() string { return n.Namespace + "/" + n.Name }

// Right is a user's permission on a LogCluster.
type Right int

// Rights. ReadReport is get logclusters/report, ReadRecords is get logclusters/records, and Clean
// is patch topics in the namespace. CleanSome is the right to patch those Topics that an RBAC rule
// names (resourceNames); a user with Clean may have no such rule. WriteRecords is create
// logclusters/records, WriteGroups is update logclusters/groups, Abort is create logclusters/abort,
// and ListUsers is list logusers in the namespace.
const (
	ReadReport Right = iota
	ReadRecords
	Clean
	CleanSome
	WriteRecords
	WriteGroups
	Abort
	ListUsers
)

// Authority authenticates and authorizes the users of a console. Each method uses the user's token,
// never the console's own rights. A method fails with ErrToken if the token is not accepted.
type Authority interface {
	// User returns the name of the user to whom the token belongs.
	User(ctx context.Context, token string) (string, error)
	// May reports whether the user has a right on a LogCluster.
	May(ctx context.Context, token string, cluster ClusterName, right Right) (bool, error)
	// Clean requests a pass over all replicas of a topic. It fails with ErrForbidden if the user may
	// not request it.
	Clean(ctx context.Context, token string, cluster ClusterName, topic string) error
	// LogUsers returns the LogUsers of a LogCluster, sorted by name. It fails with ErrForbidden if
	// the user may not list them.
	LogUsers(ctx context.Context, token string, cluster ClusterName) ([]LogUser, error)
}

// caller is the user who has sent a request to a console with an Authority.
type caller struct {
	name, token string
	// cookie is true if the token is from the login page, so that the user can log out.
	cookie bool
}

// callerKey is the context key of a request's caller.
type callerKey struct{}

// callerOf returns the caller of a request, or the zero value without an Authority.
func callerOf(r *http.Request) caller {
	user, _ := r.Context().Value(callerKey{}).(caller)
	return user
}

// tokenOf returns the token in the Authorization header, which an authenticating proxy sets, or
// otherwise the token from the login page. cookie is true for a token from the login page.
func tokenOf(r *http.Request) (token string, cookie bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if token = strings.TrimSpace(token); strings.EqualFold(scheme, "bearer") && token != "" {
		return token, false
	}
	found, err := r.Cookie(tokenCookie)
	if err != nil {
		return "", false
	}
	return found.Value, true
}

// identified passes a request and its caller to next if the authority accepts the token. It
// redirects browsers without a valid token to the login page, whose relative URL is login.
func identified(authority Authority, login string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		token, cookie := tokenOf(r)
		name, err := "", ErrToken
		if validToken(token) {
			name, err = authority.User(r.Context(), token)
		}
		switch {
		case err == nil:
			user := caller{name: name, token: token, cookie: cookie}
			next(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, user)))
		case !errors.Is(err, ErrToken):
			refuse(w, http.StatusServiceUnavailable, "The API server of Kubernetes cannot verify "+
				"the token now; try again later.")
		case r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html"):
			redirect(w, login)
		default:
			w.Header().Set("WWW-Authenticate", `Bearer realm="heartwood"`)
			refuse(w, http.StatusUnauthorized, "This request needs a token that Kubernetes accepts.")
		}
	}
}

// authorized passes a request to next if the user may see the reports of the cluster. Without an
// Authority, it passes all requests to next.
func (c *Console) authorized(next http.Handler) http.Handler {
	if c.opts.Authority == nil {
		return next
	}
	permitted := func(w http.ResponseWriter, r *http.Request) {
		if err := c.permit(r, ReadReport); err != nil {
			c.render(w, r, c.failed(r, err))
			return
		}
		if right, found := streams[r.URL.Path]; found {
			ctx, stop := c.whilePermitted(r, right)
			defer stop()
			r = r.WithContext(ctx)
		}
		next.ServeHTTP(w, r)
	}
	checked := identified(c.opts.Authority, c.opts.Root+"login", permitted)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/assets/") {
			next.ServeHTTP(w, r)
			return
		}
		checked(w, r)
	})
}

// streams contains the pages that are streams, and the right without which a stream is ended.
var streams = map[string]Right{"/live": ReadReport, "/tail": ReadRecords}

// permit returns nil if the user of a request has the right on the cluster.
func (c *Console) permit(r *http.Request, right Right) error {
	return permit(r, c.opts.Authority, c.opts.LogCluster, right)
}

func permit(r *http.Request, authority Authority, cluster ClusterName, right Right) error {
	caller := callerOf(r)
	allowed, err := authority.May(r.Context(), caller.token, cluster, right)
	switch {
	case errors.Is(err, ErrToken):
		return &fault{status: http.StatusUnauthorized, text: "Your login has ended; log in again."}
	case err != nil:
		return &fault{status: http.StatusServiceUnavailable, text: "The API server of Kubernetes " +
			"cannot be asked for your permissions now; try again later.", cause: err}
	case !allowed:
		return &fault{status: http.StatusForbidden, text: caller.name + " may not " +
			rightTexts[right] + " of LogCluster " + cluster.String() +
			": an administrator of its namespace can grant it by a Role in group heartwood.dev."}
	}
	return nil
}

// rightTexts contains the names of rights for messages about refused requests.
var rightTexts = map[Right]string{ReadReport: "get logclusters/report",
	ReadRecords: "get logclusters/records", Clean: "patch topics", CleanSome: "patch topics",
	WriteRecords: "create logclusters/records", WriteGroups: "update logclusters/groups",
	Abort: "create logclusters/abort", ListUsers: "list logusers"}

// whilePermitted returns a context for a stream. The context ends when the user loses the right to
// the stream. The caller must call stop, which waits until the checks have ended.
func (c *Console) whilePermitted(r *http.Request, right Right) (ctx context.Context,
	stop func()) {
	ctx, cancel := context.WithCancel(r.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(reviewTTL)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			var refused *fault
			if err := c.permit(r, right); errors.As(err, &refused) &&
				refused.status != http.StatusServiceUnavailable {
				cancel()
			}
		}
	}()
	return ctx, func() { cancel(); <-ended }
}

// local reports whether a request comes from a user of this machine: the console listens on a
// loopback address and is not configured for a proxy, and the request has a loopback host name and
// did not pass through a proxy.
func (c *Console) local(r *http.Request) bool {
	return c.opts.Loopback && len(c.opts.Hosts) == 0 && c.opts.PathPrefix == "" &&
		loopbackHost(r) && !proxied(r.Header)
}

// writesOf describes which topics the user of a request may clean. Without an Authority, only users
// of this machine may clean topics.
func (c *Console) writesOf(r *http.Request) string {
	switch {
	case c.opts.Authority == nil && !c.local(r):
	case c.may(r, Clean):
		return "may clean"
	case c.may(r, CleanSome):
		return "may clean some topics"
	}
	return "read only"
}

// may reports whether the user of a request has the right.
func (c *Console) may(r *http.Request, right Right) bool {
	if c.opts.Authority != nil {
		return c.permit(r, right) == nil
	}
	if c.opts.May == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(r.Context(), reviewTimeout)
	defer cancel()
	allowed, err := c.opts.May(ctx, right)
	return err == nil && allowed
}

// mayRead returns nil if the user of a request may see records (messages and keys). With an
// Authority the user needs the right get logclusters/records. Without one, the request must come
// from a user of this machine.
func (c *Console) mayRead(r *http.Request) error {
	switch {
	case c.opts.Authority != nil:
		return c.permit(r, ReadRecords)
	case c.local(r):
		return nil
	}
	return &fault{status: http.StatusForbidden, text: "Messages and keys are shown only by a " +
		"console that listens on a loopback address and is opened as localhost and not through a " +
		"proxy, or that authenticates its users (--auth). Run `heartwood console` on your " +
		"machine, or use kubectl port-forward."}
}

// requestClean requests a pass over a topic with the caller's rights.
func (c *Console) requestClean(r *http.Request, topic string) error {
	switch {
	case c.opts.Authority != nil:
		err := c.opts.Authority.Clean(r.Context(), callerOf(r).token, c.opts.LogCluster, topic)
		if errors.Is(err, ErrForbidden) {
			return &fault{status: http.StatusForbidden, text: err.Error() + "."}
		}
		return err
	case c.opts.Clean != nil:
		return c.opts.Clean(r.Context(), topic)
	}
	_, err := c.opts.Fleet.Clean(r.Context(), topic, nil)
	return err
}

// audit logs a request for a change, and the user who made it.
func (c *Console) audit(r *http.Request, what string, err error, subject ...any) {
	args := append([]any{"audit", true, "change", what, "user", cmp.Or(callerOf(r).name, "local"),
		"remote", r.RemoteAddr, "userAgent", r.UserAgent(), "accepted", err == nil}, subject...)
	if name := c.opts.LogCluster; name != (ClusterName{}) {
		args = append(args, "logCluster", name.String())
	}
	if err != nil {
		args = append(args, "error", err)
	}
	c.opts.Logger.Info("change requested", args...)
}
