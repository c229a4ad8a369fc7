package loguser

import (
	"context"
	"fmt"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/credentials"
	"heartwood.dev/heartwood/internal/operator/render"
	"heartwood.dev/heartwood/internal/pki"
)

// caFactor times ProvidedInterval is the time after which a listener's CA is read again. The
// interval is long because every LogUser of the listener reads the CA.
const caFactor = 10

// endpoint returns the addresses and settings with which the LogUser's clients connect. It chooses
// the first listener of type Internal that authenticates users of this type, otherwise the first
// one of another type. refused describes what is missing. If anything is, the endpoint has no
// address, or has the CA of the current Secret.
func (s *scope) endpoint(ctx context.Context, present map[string][]byte) (
	endpoint credentials.Endpoint, refused, err error) {
	listener, mechanism := choose(s.cluster.Spec.Listeners, s.user.Spec.Authentication.Type)
	if listener == nil {
		return endpoint, refuse(v1alpha1.ReasonNoListener, "No listener of LogCluster %s "+
			"authenticates users of type %s: add one to spec.listeners.", s.cluster.Name,
			s.user.Spec.Authentication.Type), nil
	}
	endpoint = credentials.Endpoint{TLS: listener.TLS != nil, Mechanism: mechanism}
	if err := s.external(ctx, &endpoint, present); err != nil {
		return endpoint, nil, err
	}
	if endpoint.Bootstrap, err = s.bootstrap(ctx, listener); err != nil {
		return endpoint, nil, err
	}
	if endpoint.TLS {
		if endpoint.CA, refused, err = s.listenerCA(ctx, listener); err != nil {
			return endpoint, nil, err
		} else if refused != nil {
			// kept, because the Secret may be missing only briefly
			endpoint.CA = present[credentials.KeyCA]
		}
	}
	if endpoint.Bootstrap == "" {
		refused = refuse(v1alpha1.ReasonAddressPending, "Listener %s has no address yet.",
			listener.Name)
	}
	return endpoint, refused, nil
}

// external adds to an endpoint the address for clients outside the Kubernetes cluster. It chooses
// the first listener of a type other than Internal that authenticates users of this type.
func (s *scope) external(ctx context.Context, to *credentials.Endpoint,
	present map[string][]byte) error {
	outside := slices.DeleteFunc(slices.Clone(s.cluster.Spec.Listeners),
		func(l v1alpha1.Listener) bool {
			return l.Type == v1alpha1.ListenerInternal || l.Type == ""
		})
	listener, _ := choose(outside, s.user.Spec.Authentication.Type)
	if listener == nil {
		return nil
	}
	var err error
	if to.External, err = s.bootstrap(ctx, listener); err != nil || listener.TLS == nil ||
		to.External == "" {
		return err
	}
	ca, missing, err := s.listenerCA(ctx, listener)
	if missing != nil {
		ca = present[credentials.KeyExternalCA] // kept, because the Secret may be missing only briefly
	}
	to.ExternalCA = ca
	return err
}

// choose returns the listener for a user's clients, and the SASL mechanism, which is "" for
// certificates.
func choose(listeners v1alpha1.Listeners,
	user v1alpha1.UserAuthenticationType) (chosen *v1alpha1.Listener, mechanism string) {
	for i := range listeners {
		listener := &listeners[i]
		found, ok := mechanismOf(listener, user)
		if !ok {
			continue
		}
		if listener.Type == v1alpha1.ListenerInternal {
			return listener, found
		}
		if chosen == nil {
			chosen, mechanism = listener, found
		}
	}
	return chosen, mechanism
}

// mechanismOf returns the SASL mechanism with which a listener authenticates a type of users.
func mechanismOf(listener *v1alpha1.Listener,
	user v1alpha1.UserAuthenticationType) (mechanism string, ok bool) {
	offers := func(kind v1alpha1.AuthenticationType) bool {
		return slices.ContainsFunc(listener.Authentication, func(a v1alpha1.Authentication) bool {
			return a.Type == kind && len(a.ClientCAs) == 0
		})
	}
	switch {
	case user == v1alpha1.UserTLS:
		return "", offers(v1alpha1.AuthenticationTLS)
	case offers(v1alpha1.AuthenticationScramSha512):
		return v1alpha1.ScramSha512, true
	default:
		return v1alpha1.ScramSha256, offers(v1alpha1.AuthenticationScramSha256)
	}
}

// bootstrap returns a listener's bootstrap addresses, or "" if there are none yet.
func (s *scope) bootstrap(ctx context.Context, listener *v1alpha1.Listener) (string, error) {
	leases := &coordinationv1.LeaseList{}
	if err := s.List(ctx, leases, client.InNamespace(s.cluster.Namespace),
		client.MatchingLabels{v1alpha1.LabelCluster: s.cluster.Name}); err != nil {
		return "", fmt.Errorf("list leases: %w", err)
	}
	return render.ListenerBootstrap(s.cluster, listener, leases.Items), nil
}

// listenerCA returns the CA certificates with which clients verify a listener's certificate. It is
// empty if the listener's Secret contains no CA; clients then use the CAs of their system. refused
// means that the Secret does not exist yet.
func (s *scope) listenerCA(ctx context.Context,
	listener *v1alpha1.Listener) (ca []byte, refused, err error) {
	own := v1alpha1.CACertSecretName(s.cluster.Name)
	name := own
	if listener.TLS.SecretName != "" {
		name = listener.TLS.SecretName
	} else if listener.TLS.IssuerRef != nil {
		name = render.ListenerCertificateName(s.cluster.Name, listener.Name)
	}
	if name != own {
		s.reconcileWithin(caFactor * s.ProvidedInterval) // no event reports a change of the Secret
	}
	data, err := s.Foreign(ctx, s.cluster.Namespace, name)
	if err != nil {
		return nil, nil, err
	}
	if data == nil {
		refused = refuse(v1alpha1.ReasonCertificatePending, "Clients cannot verify listener %s "+
			"yet: Secret %s does not exist. Condition %s of LogCluster %s says why.",
			listener.Name, name, v1alpha1.ConditionCertificatesReady, s.cluster.Name)
	}
	return data[pki.KeyCertificate], refused, nil
}
