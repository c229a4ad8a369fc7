package certificates

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/secrets"
	"heartwood.dev/heartwood/internal/pki"
)

// ca is one CA of a LogCluster.
type ca struct {
	name      string // name in metrics
	secret    string
	loaded    func(*pki.Authority) bool // see pki.Input
	published []bundle                  // published copies of the CA's certificates, best first
	// leaves returns those certificates in use that this kind of CA issues. The argument is the data
	// of the LogUsers' Secrets.
	leaves func(users []map[string][]byte) []*x509.Certificate
	// action that clients must take before the successor of this CA issues certificates
	advice string
}

// advance reads the required CAs, makes the changes that are due, and publishes the CAs'
// certificates. A CA that cannot be decoded is nil.
func (s *scope) advance(ctx context.Context) error {
	var err error
	if s.caCert, err = s.Read(ctx, s.cluster,
		v1alpha1.CACertSecretName(s.cluster.Name)); err != nil {
		return err
	}
	if s.ownCA() {
		if s.listeners, err = s.authority(ctx, s.listenersCA()); err != nil {
			return err
		}
	}
	if s.needsUsersCA() {
		if s.usersCA, err = s.authority(ctx, s.clientsCA()); err != nil {
			return err
		}
	}
	if s.mutualTLS() {
		if s.peers, err = s.authority(ctx, s.peersCA()); err != nil {
			return err
		}
	}
	return s.publish(ctx)
}

// readOverlap returns the time for which a new CA is published before it issues certificates.
func (s *scope) readOverlap() time.Duration {
	text := s.cluster.Annotations[v1alpha1.AnnotationReplaceCAOverlap]
	overlap, err := time.ParseDuration(text)
	switch {
	case text == "":
		return pki.Overlap
	case err != nil, overlap <= 0, overlap > pki.Overlap:
		s.fault(v1alpha1.ReasonInvalidOverlap, "The annotation %s has the value %q: set a duration "+
			"up to 24h, such as 10m. Until then 24h applies.", v1alpha1.AnnotationReplaceCAOverlap,
			text)
		return pki.Overlap
	}
	return overlap
}

// ownCA reports whether any listener has a certificate issued by the cluster's own CA.
func (s *scope) ownCA() bool {
	return slices.ContainsFunc(s.cluster.Spec.Listeners, func(l v1alpha1.Listener) bool {
		return ownCertificate(&l)
	})
}

// ownCertificate reports whether a listener has a certificate issued by the cluster's own CA.
func ownCertificate(listener *v1alpha1.Listener) bool {
	tls := listener.TLS
	return tls != nil && tls.SecretName == "" && tls.IssuerRef == nil
}

// needsUsersCA reports whether the users CA issues certificates or verifies a listener's clients.
func (s *scope) needsUsersCA() bool {
	return s.tlsUsers() || slices.ContainsFunc(s.cluster.Spec.Listeners,
		func(l v1alpha1.Listener) bool {
			return slices.ContainsFunc(l.Authentication, func(a v1alpha1.Authentication) bool {
				return a.Type == v1alpha1.AuthenticationTLS && len(a.ClientCAs) == 0
			})
		})
}

// authority reads a CA, makes the changes that are due, and stores the CA if it has changed. It
// returns nil if the CA cannot be decoded.
func (s *scope) authority(ctx context.Context, kind ca) (*pki.Authority, error) {
	read, err := s.Read(ctx, s.cluster, kind.secret)
	if err != nil {
		return nil, err
	}
	before := &pki.Authority{}
	if len(read.Data) > 0 {
		if before, err = pki.Decode(read.Data); err != nil {
			s.fault(v1alpha1.ReasonInvalidCertificate, "The CA in Secret %s cannot be decoded: %v. "+
				"Its certificates remain in use and are not renewed. Restore the Secret, or delete "+
				"it: a new CA then takes its place, with overlap.", kind.secret, err)
			return nil, nil
		}
	}
	published, lost, err := s.published(ctx, kind, read, before)
	if err != nil {
		return nil, err
	}
	after, changed, err := before.Step(s.now, pki.Input{
		Name:    s.cluster.Namespace + "/" + kind.secret,
		Loaded:  kind.loaded(before),
		Replace: s.cluster.Annotations[v1alpha1.AnnotationReplaceCA],
		Overlap: s.overlap, Published: published, Lost: lost,
	})
	if err != nil {
		return nil, fmt.Errorf("advance the CA in secret %s: %w", kind.secret, err)
	}
	if changed {
		data, err := after.Encode()
		if err != nil {
			return nil, fmt.Errorf("encode the CA in secret %s: %w", kind.secret, err)
		}
		if err := s.Write(ctx, s.cluster, s.cluster.Name, kind.secret, read, data); err != nil {
			return nil, err
		}
	}
	s.reportLoss(kind, before, after)
	s.expiries[kind.name] = after.Issuing.Certificate.NotAfter
	if next := after.Next; next != nil {
		// Once the overlap has passed, the next CA only waits for brokers. Changes of their Leases
		// trigger reconciliations.
		s.checkAt(next.Published.Add(s.overlap))
	}
	return after, nil
}

// checkAt schedules a check of the certificates at the given time, unless that time has passed
// already.
func (s *scope) checkAt(next time.Time) {
	if left := next.Sub(s.now); left > 0 {
		s.again = min(s.again, left)
	}
}

// publish writes the CA certificates with which clients verify brokers, at listeners and at the
// HTTP port.
func (s *scope) publish(ctx context.Context) error {
	data := map[string][]byte{}
	if s.ownCA() {
		putBundle(data, pki.KeyCertificate, s.listeners, s.caCert)
	}
	if s.mutualTLS() {
		putBundle(data, v1alpha1.KeyPeerCA, s.peers, s.caCert)
	}
	if len(data) == 0 {
		return nil
	}
	return s.Write(ctx, s.cluster, s.cluster.Name, v1alpha1.CACertSecretName(s.cluster.Name),
		s.caCert, data)
}

// putBundle stores a CA's certificates in data under a key. If authority is nil, it keeps the
// current certificates.
func putBundle(data map[string][]byte, key string, authority *pki.Authority,
	present secrets.Owned) {
	switch {
	case authority != nil:
		data[key] = authority.Bundle()
	case len(present.Data[key]) > 0:
		data[key] = present.Data[key]
	}
}

// loaded reports whether all brokers use an authority's complete bundle: the stored Secret contains
// the bundle under key, and all brokers have reported that they use this Secret.
func (s *scope) loaded(authority *pki.Authority, key string) bool {
	stored := s.brokersTLS.Data
	return authority.Issuing.Certificate != nil &&
		bytes.Equal(stored[key], authority.Bundle()) &&
		s.reported(v1alpha1.TrustFingerprint(stored))
}

// reported reports whether every broker's Lease has this value of Registration.Trust.
func (s *scope) reported(trust string) bool {
	brokers := map[int32]bool{}
	for i := range s.leases {
		if cluster, id, ok := v1alpha1.ParseBrokerLeaseName(s.leases[i].Name); ok &&
			cluster == s.cluster.Name && id < s.brokers {
			brokers[id] = v1alpha1.ReadRegistration(&s.leases[i]).Trust == trust
		}
	}
	for id := range s.brokers {
		if !brokers[id] {
			return false
		}
	}
	return true
}
