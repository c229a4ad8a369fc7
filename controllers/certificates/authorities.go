package certificates

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/pki"
)

// advance reads the CAs that are needed, applies the changes that are due, and publishes their
// certificates.
func (s *scope) advance(ctx context.Context) error {
	cluster := s.cluster.Name
	var err error
	if s.ownCA() {
		// Clients do not report which bundle they use.
		if s.listeners, err = s.authority(ctx, "ca", v1alpha1.CASecretName(cluster),
			func(*pki.Authority) bool { return true }); err != nil {
			return err
		}
	}
	if s.needsUsersCA() {
		if s.usersCA, err = s.authority(ctx, "users-ca", v1alpha1.UsersCASecretName(cluster),
			func(a *pki.Authority) bool { return s.loaded(a, v1alpha1.KeyUsersCA) }); err != nil {
			return err
		}
	}
	if s.mutualTLS() {
		if s.peers, err = s.authority(ctx, "peer-ca", v1alpha1.PeerCASecretName(cluster),
			func(a *pki.Authority) bool { return s.loaded(a, v1alpha1.KeyPeerCA) }); err != nil {
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

// ownCA reports whether a listener has a certificate of the cluster's own CA.
func (s *scope) ownCA() bool {
	return slices.ContainsFunc(s.cluster.Spec.Listeners, func(l v1alpha1.Listener) bool {
		return l.TLS != nil && l.TLS.SecretName == "" && l.TLS.IssuerRef == nil
	})
}

// needsUsersCA reports whether the users CA issues certificates, or verifies clients of a listener.
func (s *scope) needsUsersCA() bool {
	return s.tlsUsers() || slices.ContainsFunc(s.cluster.Spec.Listeners,
		func(l v1alpha1.Listener) bool {
			return slices.ContainsFunc(l.Authentication, func(a v1alpha1.Authentication) bool {
				return a.Type == v1alpha1.AuthenticationTLS && len(a.ClientCAs) == 0
			})
		})
}

// authority reads a CA, and stores it if it has changed. name is its name in metrics.
func (s *scope) authority(ctx context.Context, name, secret string,
	loaded func(*pki.Authority) bool) (*pki.Authority, error) {
	read, err := s.Read(ctx, s.cluster, secret)
	if err != nil {
		return nil, err
	}
	authority := &pki.Authority{}
	if len(read.Data) > 0 {
		if authority, err = pki.Decode(read.Data); err != nil {
			return nil, fmt.Errorf(
				"decode the CA in secret %s (restore it, or delete it to make a new CA): %w",
				secret, err)
		}
	}
	authority, changed, err := authority.Step(s.now, pki.Input{
		Name:    s.cluster.Namespace + "/" + secret,
		Loaded:  loaded(authority),
		Replace: s.cluster.Annotations[v1alpha1.AnnotationReplaceCA],
		Overlap: s.overlap,
	})
	if err != nil {
		return nil, fmt.Errorf("advance the CA in secret %s: %w", secret, err)
	}
	if changed {
		data, err := authority.Encode()
		if err != nil {
			return nil, fmt.Errorf("encode the CA in secret %s: %w", secret, err)
		}
		if err := s.Write(ctx, s.cluster, s.cluster.Name, secret, read, data); err != nil {
			return nil, err
		}
	}
	s.expiries[name] = authority.Issuing.Certificate.NotAfter
	if next := authority.Next; next != nil {
		// Later, the next CA waits for brokers, whose Leases cause a reconciliation.
		if left := next.Published.Add(s.overlap).Sub(s.now); left > 0 {
			s.again = min(s.again, left)
		}
	}
	return authority, nil
}

// publish writes the certificates by which clients verify brokers: at listeners, and at the HTTP
// port.
func (s *scope) publish(ctx context.Context) error {
	data := map[string][]byte{}
	if s.listeners != nil {
		data[pki.KeyCertificate] = s.listeners.Bundle()
	}
	if s.peers != nil {
		data[v1alpha1.KeyPeerCA] = s.peers.Bundle()
	}
	if len(data) == 0 {
		return nil
	}
	name := v1alpha1.CACertSecretName(s.cluster.Name)
	read, err := s.Read(ctx, s.cluster, name)
	if err != nil {
		return err
	}
	return s.Write(ctx, s.cluster, s.cluster.Name, name, read, data)
}

// loaded reports whether every broker verifies with the whole bundle of an authority: the stored
// Secret contains the bundle under key, and all brokers have reported that they use this Secret.
func (s *scope) loaded(authority *pki.Authority, key string) bool {
	stored := s.brokersTLS.Data
	return authority.Issuing.Certificate != nil &&
		bytes.Equal(stored[key], authority.Bundle()) &&
		s.reported(v1alpha1.TrustFingerprint(stored))
}

// reported reports whether the Lease of every broker has this value of AnnotationTrust.
func (s *scope) reported(trust string) bool {
	brokers := map[int32]bool{}
	for i := range s.leases {
		if cluster, id, ok := v1alpha1.ParseBrokerLeaseName(s.leases[i].Name); ok &&
			cluster == s.cluster.Name && id < s.brokers {
			brokers[id] = s.leases[i].Annotations[v1alpha1.AnnotationTrust] == trust
		}
	}
	for id := range s.brokers {
		if !brokers[id] {
			return false
		}
	}
	return true
}
