package wire

import (
	"crypto/tls"
	"time"

	"heartwood.dev/heartwood/internal/sasl"
)

// Role is the kind of client that a session belongs to: a Kafka client, a broker or the operator.
type Role int8

// The roles. Only a listener for peers assigns the roles of brokers and the operator.
const (
	RoleClient Role = iota
	RoleBroker
	RoleOperator
)

// MechanismTLS is the mechanism of a session whose client has authenticated with a certificate.
const MechanismTLS = "TLS"

// Session is the authenticated state of a connection. It is immutable; a re-authentication replaces
// it (KIP-368).
type Session struct {
	Principal Principal
	Role      Role
	Broker    int32  // broker id; only for RoleBroker
	Mechanism string // SASL mechanism or MechanismTLS; "": the listener has no authentication
	// Expires is the time at which the session ends unless the client authenticates again; the zero
	// time: it does not expire. It contains a monotonic reading, so that a jump of the clock has no
	// effect.
	Expires time.Time
	// Credential is the value of sasl.Identity.Credential.
	Credential string

	begun time.Time
}

// anonymous is the session of clients on a listener without authentication.
var anonymous = &Session{Principal: Anonymous}

// Security configures TLS and the authentication of clients. The zero value means a plaintext
// listener without authentication.
type Security struct {
	// TLS returns the TLS configuration for a new connection. It is a function so that a new
	// certificate takes effect without a restart. If TLS is nil, the listener does not use TLS.
	TLS func() *tls.Config
	// Plain reports whether clients may currently connect without TLS. If it is nil, they may not.
	Plain func() bool
	// Certificate returns the session for a client's verified certificate. It is nil if the listener
	// does not authenticate clients by certificate.
	Certificate func(state *tls.ConnectionState) (*Session, error)
	// Mechanisms contains the SASL mechanisms; empty: the listener does not use SASL.
	Mechanisms []string
	// SASL returns the current options for new conversations. It is required if Mechanisms is not
	// empty.
	SASL func() *sasl.Options
	// ReauthMax is the time after which a client must reauthenticate; 0: only when its credential
	// expires.
	ReauthMax time.Duration
	// Valid reports whether a session may continue. EndSessions calls it.
	Valid func(*Session) bool
	// UnauthenticatedMax is the maximum number of connections that have not authenticated yet. The
	// default is 1,000.
	UnauthenticatedMax int
	// UnauthenticatedPerAddressMax is the corresponding limit for one address. The default is 50.
	UnauthenticatedPerAddressMax int
	// HandshakeTimeout limits the TLS handshake. The default is 5 s.
	HandshakeTimeout time.Duration
	// AuthenticationTimeout limits the time from accept to the end of the authentication. The default
	// is 10 s.
	AuthenticationTimeout time.Duration
	// FailuresMax is the maximum number of failed authentications of a user from one address within a
	// minute. After more failures, the user is refused at this address for 30 s. The default is 10.
	FailuresMax int
	// FailureDelay is the time after which the reply to a failed authentication is sent. The default
	// is 100 ms, as in Kafka (connection.failed.authentication.delay.ms).
	FailureDelay time.Duration
}

func (s *Security) setDefaults() {
	s.UnauthenticatedMax = defaulted(s.UnauthenticatedMax, 1000)
	s.UnauthenticatedPerAddressMax = defaulted(s.UnauthenticatedPerAddressMax, 50)
	s.HandshakeTimeout = defaulted(s.HandshakeTimeout, 5*time.Second)
	s.AuthenticationTimeout = defaulted(s.AuthenticationTimeout, 10*time.Second)
	s.FailuresMax = defaulted(s.FailuresMax, failuresMax)
	s.FailureDelay = defaulted(s.FailureDelay, 100*time.Millisecond)
}

// establishes reports whether connections have a TLS or authentication phase before the first
// request.
func (s *Security) establishes() bool { return s.TLS != nil || len(s.Mechanisms) > 0 }

// EndSessions closes the connections whose session is no longer valid, for example after a user's
// password has changed. The owner of the server must call it after each change of credentials.
func (s *Server) EndSessions() {
	if s.opts.Security.Valid == nil {
		return
	}
	s.open.Lock()
	var ended []*connection
	for c := range s.open.connections {
		if session := c.session.Load(); session != nil && !s.opts.Security.Valid(session) {
			ended = append(ended, c)
		}
	}
	s.open.Unlock()
	for _, c := range ended {
		s.metrics.rejected(rejectRevoked)
		s.opts.Logger.Info("connection closed: credential revoked", "listener", s.opts.Name,
			"remote", c.socket.RemoteAddr(), "principal", c.session.Load().Principal)
		c.cancel()
	}
}
