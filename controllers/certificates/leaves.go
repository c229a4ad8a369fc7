package certificates

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"strings"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/operator/render"
	"heartwood.dev/heartwood/internal/pki"
)

// unknownUsersBytes is the size of the value of KeyUnknownUsers.
const unknownUsersBytes = 32

// leaves returns the new content of Secret brokers-tls. It omits certificates of listeners and
// brokers that no longer exist.
func (s *scope) leaves(ctx context.Context) (map[string][]byte, error) {
	data := map[string][]byte{}
	for i := range s.cluster.Spec.Listeners {
		if err := s.listener(ctx, &s.cluster.Spec.Listeners[i], data); err != nil {
			return nil, err
		}
	}
	if s.needsUsersCA() {
		putBundle(data, v1alpha1.KeyUsersCA, s.usersCA, s.brokersTLS)
	}
	if s.mutualTLS() {
		putBundle(data, v1alpha1.KeyPeerCA, s.peers, s.brokersTLS)
		for id := range s.brokers {
			if err := s.peer(id, data); err != nil {
				return nil, err
			}
		}
	}
	data[v1alpha1.KeyUnknownUsers] = s.brokersTLS.Data[v1alpha1.KeyUnknownUsers]
	if len(data[v1alpha1.KeyUnknownUsers]) != unknownUsersBytes {
		data[v1alpha1.KeyUnknownUsers] = make([]byte, unknownUsersBytes)
		_, _ = rand.Read(data[v1alpha1.KeyUnknownUsers]) // never fails
	}
	return data, nil
}

// listener adds a listener's certificate, and the CAs of the listener's clients.
func (s *scope) listener(ctx context.Context, listener *v1alpha1.Listener,
	data map[string][]byte) error {
	if listener.TLS == nil {
		return nil
	}
	var err error
	keys := listenerKeys(listener)
	leaf := s.present(keys)
	if ownCertificate(listener) {
		leaf, err = s.renew(s.listeners, leaf, s.request(listener))
	} else {
		leaf, err = s.providedLeaf(ctx, listener, leaf)
	}
	if err != nil {
		return err
	}
	if leaf.Certificate != nil {
		data[keys.certificate], data[keys.private] = leaf.Chain, leaf.Key
		s.expiries["listener."+listener.Name] = leaf.Certificate.NotAfter
		if s.now.After(leaf.Certificate.NotAfter) {
			s.fault(v1alpha1.ReasonCertificateExpired,
				"The certificate of listener %s has expired.", listener.Name)
		}
	}
	return s.clientCAs(ctx, listener, data)
}

// request returns the certificate request for a listener. The certificate also covers the
// advertised hosts, which are in the brokers' Leases.
func (s *scope) request(listener *v1alpha1.Listener) pki.Request {
	names := pki.ListenerNames{Namespace: s.cluster.Namespace,
		Services: render.BootstrapServices(s.cluster, listener.Name),
		Headless: []string{render.HeadlessName(s.cluster.Name)}}
	for i := range s.leases {
		address := s.leases[i].Annotations[v1alpha1.AnnotationEndpointPrefix+listener.Name]
		if endpoint, err := metadata.ParseEndpoint(address); err == nil {
			names.Hosts = append(names.Hosts, endpoint.Host)
		}
	}
	if advertised := listener.Advertised; advertised != nil {
		for id := range s.brokers {
			names.Hosts = append(names.Hosts, render.AdvertisedHost(advertised.Host, id))
		}
	}
	return names.Request(s.cluster.Name + "-" + listener.Name)
}

// peer adds a broker's peer certificate.
func (s *scope) peer(id int32, data map[string][]byte) error {
	keys := peerKeys(id)
	request := pki.PeerRequest(v1alpha1.BrokerLeaseName(s.cluster.Name, id),
		render.HeadlessName(s.cluster.Name), s.cluster.Namespace,
		v1alpha1.PeerURI(s.cluster.Namespace, s.cluster.Name, id))
	leaf, err := s.renew(s.peers, s.present(keys), request)
	if err != nil || leaf.Certificate == nil {
		return err
	}
	data[keys.certificate], data[keys.private] = leaf.Chain, leaf.Key
	s.expiries[fmt.Sprintf("peer.%d", id)] = leaf.Certificate.NotAfter
	return nil
}

// renew returns the current leaf, or a new one if a renewal is due and authority is not nil.
func (s *scope) renew(authority *pki.Authority, present pki.Leaf,
	request pki.Request) (pki.Leaf, error) {
	if authority == nil || authority.Due(present, request, s.now) == "" {
		return present, nil
	}
	return authority.Issue(request, s.now)
}

// clientCAs adds the CAs of the listener's clients, unless the users CA issues their certificates.
// It also adds the CA of the server that provides the keys of OAuth tokens. If a CA cannot be read,
// the current certificates are kept.
func (s *scope) clientCAs(ctx context.Context, listener *v1alpha1.Listener,
	data map[string][]byte) error {
	for _, authentication := range listener.Authentication {
		if err := s.bundle(ctx, listener.Name, "client CA", authentication.ClientCAs,
			v1alpha1.ListenerClientCAKey(listener.Name), data); err != nil {
			return err
		}
		if oauth := authentication.OAuth; oauth != nil && oauth.CA != nil {
			if err := s.bundle(ctx, listener.Name, "CA of jwksURL", []v1alpha1.SecretKey{*oauth.CA},
				v1alpha1.ListenerOAuthCAKey(listener.Name), data); err != nil {
				return err
			}
		}
	}
	return nil
}

// bundle adds certificates under a key. It reads them from Secrets that the operator does not
// write.
func (s *scope) bundle(ctx context.Context, listener, what string, sources []v1alpha1.SecretKey,
	key string, data map[string][]byte) error {
	var all strings.Builder
	for _, from := range sources {
		value, found, err := s.Key(ctx, s.cluster.Namespace, from)
		if err != nil {
			return err
		}
		if !found {
			err = fmt.Errorf("the key %s does not exist", from.Key)
		} else {
			_, err = pki.ParseCertificates(value)
		}
		if err != nil {
			s.fault(v1alpha1.ReasonInvalidCertificate, "The %s of listener %s in Secret %s cannot "+
				"be used: %v. Correct the Secret.", what, listener, from.Name, err)
			// Without this key, brokers would use the users CA or the public CAs.
			data[key] = []byte(cmp.Or(string(s.brokersTLS.Data[key]), "# none\n"))
			return nil
		}
		all.Write(value)
		all.WriteByte('\n')
	}
	if all.Len() > 0 {
		data[key] = []byte(all.String())
	}
	return nil
}
