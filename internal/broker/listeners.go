package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/authz"
	"heartwood.dev/heartwood/internal/certname"
	"heartwood.dev/heartwood/internal/handler"
	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/sasl"
	"heartwood.dev/heartwood/internal/wire"
)

// Listener is a port on which a broker accepts client connections.
type Listener struct {
	Name      string
	Listen    string // host:port; for port 0 the system chooses a port
	Advertise string // host:port for clients; default: the listener's address
	// TLS reports whether the listener requires TLS, with its certificate in Options.Certificates.
	TLS            bool
	Authentication []v1alpha1.Authentication // empty: clients are anonymous
	// ReauthMax is the time after which a client must reauthenticate; 0: no limit.
	ReauthMax      time.Duration
	ConnectionsMax int // 0: only the limit of the process applies
	FailuresMax    int // wire.Security.FailuresMax
}

// ListenerOf converts a LogCluster's listener to a broker's listener.
func ListenerOf(l *v1alpha1.Listener, listen, advertise string) Listener {
	listener := Listener{Name: l.Name, Listen: listen, Advertise: advertise, TLS: l.TLS != nil,
		Authentication: l.Authentication}
	if l.MaxReauth != nil {
		listener.ReauthMax = l.MaxReauth.Duration
	}
	if l.MaxConnections != nil {
		listener.ConnectionsMax = int(*l.MaxConnections)
	}
	if l.MaxAuthenticationFailures != nil {
		listener.FailuresMax = int(*l.MaxAuthenticationFailures)
	}
	return listener
}

// openListener is an open port with its server.
type openListener struct {
	Listener
	socket   net.Listener
	endpoint metadata.Endpoint
	server   *wire.Server // nil until the handler exists
}

// listeners returns Options.Listeners, or a plaintext listener with Listen and Advertise if there
// are none.
func (o *Options) listeners() []Listener {
	if len(o.Listeners) > 0 {
		return o.Listeners
	}
	return []Listener{{Name: metadata.DefaultListener, Listen: o.Listen, Advertise: o.Advertise}}
}

// openListeners opens the ports. It rejects advertised addresses to which no client can connect,
// because otherwise only clients would notice the mistake.
func (b *Broker) openListeners() error {
	for _, l := range b.opts.listeners() {
		socket, err := listen(l.Listen)
		if err != nil {
			return fmt.Errorf("listen on %s: %w", l.Listen, err)
		}
		open := &openListener{Listener: l, socket: socket}
		b.listeners = append(b.listeners, open)
		advertise := l.Advertise
		if advertise == "" {
			advertise = socket.Addr().String()
		}
		if open.endpoint, err = metadata.ParseEndpoint(advertise); err != nil {
			return fmt.Errorf("advertised address: %w", err)
		}
		if ip := net.ParseIP(open.endpoint.Host); ip != nil && ip.IsUnspecified() {
			return fmt.Errorf("advertised address %q is unspecified: advertise an address that "+
				"clients can connect to", advertise)
		}
	}
	return nil
}

// serveListeners creates the server of each listener.
func (b *Broker) serveListeners(requests *handler.Handler, connections int) error {
	for _, l := range b.listeners {
		security, err := b.security(&l.Listener)
		if err != nil {
			return fmt.Errorf("configure listener %s: %w", l.Name, err)
		}
		limit := connections
		if l.ConnectionsMax > 0 {
			limit = min(limit, l.ConnectionsMax)
		}
		l.server = wire.NewServer(wire.Options{
			Name: l.Name, Listener: l.socket, Handler: requests, APIName: handler.APIName,
			ConnectionsMax: limit, Registry: b.opts.Registry, Logger: b.logger, Security: security,
		})
	}
	if b.peers != nil {
		b.peers.server = wire.NewServer(wire.Options{
			Name: peersListener, Listener: b.peers.socket, Handler: requests,
			APIName: handler.APIName, ConnectionsMax: connections, Registry: b.opts.Registry,
			Logger: b.logger, Security: b.peerSecurity(),
		})
	}
	return nil
}

// allListeners returns the listeners for clients, and the listener for other brokers if there is
// one.
func (b *Broker) allListeners() []*openListener {
	if b.peers == nil {
		return b.listeners
	}
	return append(slices.Clip(b.listeners), b.peers)
}

// security returns a listener's TLS and authentication settings.
func (b *Broker) security(l *Listener) (wire.Security, error) {
	names, byCertificate := mechanisms(l.Authentication)
	security := wire.Security{Mechanisms: names, ReauthMax: l.ReauthMax, Valid: b.sessionValid,
		FailuresMax: l.FailuresMax}
	if l.TLS && b.opts.Certificates == nil {
		return security, errors.New("a listener with TLS needs certificates")
	}
	if l.TLS {
		security.TLS = b.opts.Certificates.server(l.Name, byCertificate)
	}
	if byCertificate {
		rules, err := certname.ParseRules(principalRules(l.Authentication))
		if err != nil {
			return security, err
		}
		if !l.TLS {
			return security, errors.New("authentication TLS needs TLS")
		}
		security.Certificate = b.opts.Certificates.client(l.Name, rules)
	}
	verifier, err := b.tokens(l)
	security.SASL = func() *sasl.Options { return b.saslOptions(verifier) }
	return security, err
}

func principalRules(authentication []v1alpha1.Authentication) []string {
	for i := range authentication {
		if authentication[i].Type == v1alpha1.AuthenticationTLS {
			return authentication[i].PrincipalRules
		}
	}
	return nil
}

// saslOptions returns SASL options that use the password verifiers in the current metadata image.
// tokens verifies tokens; if it is nil, the listener accepts none.
func (b *Broker) saslOptions(tokens sasl.TokenVerifier) *sasl.Options {
	security := b.image().Security
	o := &sasl.Options{Verifiers: security.Verifiers, Tokens: tokens}
	if security != nil {
		o.UnknownKey = security.UnknownUsers
	}
	return o
}

// sessionValid reports whether a client session may continue. If the client has authenticated with
// a password, the password must still be valid.
func (b *Broker) sessionValid(s *wire.Session) bool {
	if s.Credential == "" {
		return true
	}
	now := time.Now()
	for _, v := range b.image().Security.Verifiers(s.Mechanism, s.Principal.Name) {
		if sasl.CredentialID(&v) == s.Credential && (v.NotAfter.IsZero() || now.Before(v.NotAfter)) {
			return true
		}
	}
	return false
}

// credentialsInterval is how often the broker checks whether the passwords of its sessions are
// still valid.
const credentialsInterval = 5 * time.Second

// endSessions ends the sessions whose credential is no longer valid.
func (b *Broker) endSessions() {
	for _, l := range b.listeners {
		if l.server != nil {
			l.server.EndSessions()
		}
	}
}

// authorize reports whether the ACLs in the current metadata image allow an action. If
// authorization is disabled, every action is allowed.
func (b *Broker) authorize(a api.Action) bool {
	m := b.image().Security.Matcher()
	switch {
	case m == nil:
		return true
	case a.Name == api.AnyName:
		return m.AllowedAny(a.Principal, a.Address, a.Operation, a.Type)
	}
	return m.Allowed(a.Principal, a.Address, a.Operation, a.Type, a.Name)
}

// explain returns the rule that denied an action, for the audit log.
func (b *Broker) explain(a api.Action) string {
	return b.image().Security.Matcher().Explain(a.Principal, authz.Canonical(a.Address),
		a.Operation, a.Type, a.Name).String()
}

// serveAll serves all listeners until ctx ends or one of them fails, and returns the first error.
func (b *Broker) serveAll(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, l := range b.allListeners() {
		group.Go(func() error { return l.server.Serve(ctx) })
	}
	group.Go(func() error {
		tick := time.NewTicker(credentialsInterval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
				b.endSessions()
			}
		}
	})
	return group.Wait()
}

// failingClients returns the clients that fail to authenticate at this broker. Within each
// listener, blocked clients come first.
func (b *Broker) failingClients() (clients []report.FailingClient) {
	for _, l := range b.allListeners() {
		if l.server == nil {
			continue
		}
		for _, c := range l.server.FailingClients() {
			clients = append(clients, report.FailingClient{Broker: b.opts.NodeID, Listener: l.Name,
				Address: c.Address.String(), User: c.User, Blocked: c.Blocked})
		}
	}
	return clients
}
