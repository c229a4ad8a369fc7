package certificates

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/secrets"
	"heartwood.dev/heartwood/internal/credentials"
	"heartwood.dev/heartwood/internal/pki"
)

// bundle contains a CA's published certificates. The first one belongs to the CA that issues.
type bundle []*x509.Certificate

// parseBundle returns the CA certificates in PEM data, or nil if the data contains anything else.
func parseBundle(data []byte) bundle {
	certificates, err := pki.ParseCertificates(data)
	if err != nil || slices.ContainsFunc(certificates, func(c *x509.Certificate) bool {
		return !c.IsCA
	}) {
		return nil
	}
	return certificates
}

// published returns the published certificates that a CA must keep. It also reports whether the CA
// was lost, which means that the CA does not exist although it has issued certificates. An existing
// CA can be a different one than before if a user has replaced the Secret. This is certain only if
// the published CA has issued a certificate in use: a published copy alone can be outdated, for
// example restored from a backup.
func (s *scope) published(ctx context.Context, kind ca, read secrets.Owned,
	authority *pki.Authority) (published bundle, lost bool, err error) {
	exists, source := len(read.Data) > 0, kind.published[0]
	if exists && (len(source) == 0 || authority.Has(source[0])) {
		return nil, false, nil
	}
	users, err := s.userSecrets(ctx)
	if err != nil {
		return nil, false, err
	}
	leaves := kind.leaves(users)
	if exists {
		if !slices.ContainsFunc(leaves, func(leaf *x509.Certificate) bool {
			return !s.now.After(leaf.NotAfter) && pki.IssuedBy(leaf, source[:1])
		}) {
			source = nil
		}
		return source, false, nil
	}
	for _, source := range append(kind.published, copiesOf(users, leaves)...) {
		if len(source) > 0 {
			return source, true, nil
		}
	}
	// If the brokers' Secret is missing, only the status shows that there were certificates.
	return nil, read.Exists() || len(leaves) > 0 ||
		!s.brokersTLS.Exists() && s.cluster.Status.NextCertificateExpiry != nil, nil
}

// copiesOf returns those bundles in LogUsers' Secrets whose first certificate has issued one of the
// leaves. The other bundles belong to other listeners.
func copiesOf(users []map[string][]byte, leaves []*x509.Certificate) (copies []bundle) {
	for _, data := range users {
		found := parseBundle(data[credentials.KeyCA])
		if len(found) > 0 && slices.ContainsFunc(leaves, func(leaf *x509.Certificate) bool {
			return pki.IssuedBy(leaf, found[:1])
		}) {
			copies = append(copies, found)
		}
	}
	return copies
}

// listenersCA returns the CA of listeners. Its bundle counts as loaded at once, because clients do
// not report which bundle they use.
func (s *scope) listenersCA() ca {
	return ca{name: "ca", secret: v1alpha1.CASecretName(s.cluster.Name),
		loaded:    func(*pki.Authority) bool { return true },
		published: []bundle{parseBundle(s.caCert.Data[pki.KeyCertificate])},
		leaves: func([]map[string][]byte) (leaves []*x509.Certificate) {
			for i := range s.cluster.Spec.Listeners {
				if listener := &s.cluster.Spec.Listeners[i]; ownCertificate(listener) {
					leaves = s.appendLeaf(leaves, listenerKeys(listener))
				}
			}
			return leaves
		},
		advice: fmt.Sprintf("Clients must read ca.crt of Secret %s again",
			v1alpha1.CACertSecretName(s.cluster.Name))}
}

// clientsCA returns the CA of LogUsers.
func (s *scope) clientsCA() ca {
	return ca{name: "users-ca", secret: v1alpha1.UsersCASecretName(s.cluster.Name),
		loaded:    func(a *pki.Authority) bool { return s.loaded(a, v1alpha1.KeyUsersCA) },
		published: []bundle{parseBundle(s.brokersTLS.Data[v1alpha1.KeyUsersCA])},
		leaves: func(users []map[string][]byte) (leaves []*x509.Certificate) {
			for _, data := range users {
				leaf, err := pki.ParseLeaf(data[credentials.KeyCertificate], data[credentials.KeyKey])
				if err == nil {
					leaves = append(leaves, leaf.Certificate)
				}
			}
			return leaves
		},
		advice: "Clients must read the certificates in the Secrets of LogUsers again"}
}

// peersCA returns the CA for connections between brokers.
func (s *scope) peersCA() ca {
	return ca{name: "peer-ca", secret: v1alpha1.PeerCASecretName(s.cluster.Name),
		loaded: func(a *pki.Authority) bool { return s.loaded(a, v1alpha1.KeyPeerCA) },
		published: []bundle{parseBundle(s.caCert.Data[v1alpha1.KeyPeerCA]),
			parseBundle(s.brokersTLS.Data[v1alpha1.KeyPeerCA])},
		leaves: func([]map[string][]byte) (leaves []*x509.Certificate) {
			for id := range s.brokers {
				leaves = s.appendLeaf(leaves, peerKeys(id))
			}
			return leaves
		},
		advice: fmt.Sprintf("Clients of the HTTP port must read peer-ca.crt of Secret %s again",
			v1alpha1.CACertSecretName(s.cluster.Name))}
}

// keys contains the keys of a certificate and of its private key in Secret brokers-tls.
type keys struct{ certificate, private string }

func listenerKeys(listener *v1alpha1.Listener) (k keys) {
	k.certificate, k.private = v1alpha1.ListenerCertificateKeys(listener.Name)
	return k
}

func peerKeys(id int32) (k keys) {
	k.certificate, k.private = v1alpha1.PeerCertificateKeys(id)
	return k
}

// appendLeaf appends a certificate of Secret brokers-tls, if it exists.
func (s *scope) appendLeaf(leaves []*x509.Certificate, named keys) []*x509.Certificate {
	leaf := s.present(named)
	if leaf.Certificate == nil {
		return leaves
	}
	return append(leaves, leaf.Certificate)
}

// present returns a certificate of Secret brokers-tls. The Leaf is empty if the certificate is
// missing or invalid.
func (s *scope) present(named keys) pki.Leaf {
	leaf, err := pki.ParseLeaf(s.brokersTLS.Data[named.certificate], s.brokersTLS.Data[named.private])
	if err != nil {
		return pki.Leaf{}
	}
	return leaf
}

// userSecrets returns the data of the LogUsers' Secrets, from the cache.
func (s *scope) userSecrets(ctx context.Context) (all []map[string][]byte, err error) {
	list := &corev1.SecretList{}
	if err := s.List(ctx, list, client.InNamespace(s.cluster.Namespace),
		client.MatchingLabels{v1alpha1.LabelCluster: s.cluster.Name}); err != nil {
		return nil, fmt.Errorf("list secrets: %w", err)
	}
	stored := map[string]*corev1.Secret{}
	for i := range list.Items {
		stored[list.Items[i].Name] = &list.Items[i]
	}
	for i := range s.users {
		secret := stored[v1alpha1.UserSecretName(s.users[i].Name)]
		if secret != nil && metav1.IsControlledBy(secret, &s.users[i]) {
			all = append(all, secret.Data)
		}
	}
	return all, nil
}

// reportLoss adds the loss of a CA to the condition until the overlap of the CA's successor has
// passed. It creates an event when the loss is first detected.
func (s *scope) reportLoss(kind ca, before, after *pki.Authority) {
	if after.Lost.IsZero() {
		return
	}
	message := fmt.Sprintf("The CA in Secret %s was lost or replaced at %s, and no certificate of it "+
		"was left to keep. A new CA has issued new certificates at once. %s.", kind.secret,
		after.Lost.UTC().Format(time.RFC3339), kind.advice)
	if after.Issuing.Key == nil && after.Next != nil {
		message = fmt.Sprintf("The CA in Secret %s was lost or replaced at %s. Its certificate stays "+
			"in the bundles, and the certificates that it has issued remain in use. The CA in its "+
			"place issues certificates from %s on, when all brokers have loaded it. %s by then.",
			kind.secret, after.Lost.UTC().Format(time.RFC3339),
			after.Next.Published.Add(s.overlap).UTC().Format(time.RFC3339), kind.advice)
	}
	s.losses = append(s.losses, message)
	s.checkAt(after.Lost.Add(s.overlap))
	if !after.Lost.Equal(before.Lost) {
		ctrl.Log.Info("CA was lost", "secret", kind.secret, "namespace", s.cluster.Namespace,
			"kept", after.Issuing.Key == nil)
		s.Events.Warning(s.cluster, v1alpha1.ReasonCALost, "IssueCertificates", "%s", message)
	}
}
