package certificates

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/owned"
	"heartwood.dev/heartwood/internal/operator/render"
	"heartwood.dev/heartwood/internal/pki"
)

// Certificate is the cert-manager kind that the operator creates for an issuerRef.
var Certificate = schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1",
	Kind: "Certificate"}

// These are the keys of a Secret of type kubernetes.io/tls. cert-manager uses the same keys.
const (
	keyCertificate = "tls.crt"
	keyPrivate     = "tls.key"
)

// provided reports whether a listener's certificate comes from a Secret that the operator does not
// write.
func (s *scope) provided() bool {
	for _, listener := range s.cluster.Spec.Listeners {
		if tls := listener.TLS; tls != nil && (tls.SecretName != "" || tls.IssuerRef != nil) {
			return true
		}
		for _, authentication := range listener.Authentication {
			if len(authentication.ClientCAs) > 0 ||
				authentication.OAuth != nil && authentication.OAuth.CA != nil {
				return true
			}
		}
	}
	return false
}

// providedLeaf returns the certificate in the listener's Secret, or the current one if the Secret
// contains no valid certificate.
func (s *scope) providedLeaf(ctx context.Context, listener *v1alpha1.Listener,
	present pki.Leaf) (pki.Leaf, error) {
	name, reason := listener.TLS.SecretName, v1alpha1.ReasonInvalidCertificate
	advice := "Write a valid certificate and key into the keys tls.crt and tls.key."
	if listener.TLS.IssuerRef != nil {
		name, reason = render.ListenerCertificateName(s.cluster.Name, listener.Name),
			v1alpha1.ReasonCertificatePending
		advice = fmt.Sprintf("Run: kubectl describe certificate -n %s %s", s.cluster.Namespace,
			name)
		if err := s.applyCertificate(ctx, listener, name); isNotInstalled(err) {
			s.fault(reason, "Listener %s has an issuerRef, but cert-manager is not installed: "+
				"install it, or use secretName.", listener.Name)
			return present, nil
		} else if foreign := owned.AsForeign(err); foreign != nil {
			s.fault(reason, "Listener %s: %s", listener.Name, foreign.Message())
			return present, nil
		} else if err != nil {
			return pki.Leaf{}, err
		}
	}
	leaf, err := s.read(ctx, name)
	if err != nil {
		kept := ""
		if present.Certificate != nil {
			kept = " Brokers keep the previous certificate."
		}
		s.fault(reason, "Listener %s cannot use the certificate in Secret %s: %v.%s %s",
			listener.Name, name, err, kept, advice)
		return present, nil
	}
	return leaf, nil
}

// read reads a certificate that the operator did not issue. An error means that the Secret must be
// corrected.
func (s *scope) read(ctx context.Context, name string) (pki.Leaf, error) {
	data, err := s.Foreign(ctx, s.cluster.Namespace, name)
	switch {
	case err != nil:
		return pki.Leaf{}, err
	case data == nil:
		return pki.Leaf{}, errors.New("the Secret does not exist")
	}
	leaf, err := pki.ParseLeaf(data[keyCertificate], data[keyPrivate])
	if err != nil {
		return pki.Leaf{}, err
	}
	return leaf, leaf.Check(s.now)
}

// applyCertificate creates or updates a listener's Certificate.
func (s *scope) applyCertificate(ctx context.Context, listener *v1alpha1.Listener,
	name string) error {
	request := s.request(listener)
	var addresses []any
	for _, address := range request.IPs {
		addresses = append(addresses, address.String())
	}
	issuer := listener.TLS.IssuerRef
	certificate := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{
			"secretName": name, "dnsNames": anySlice(request.DNSNames),
			"privateKey": map[string]any{"algorithm": "ECDSA", "size": int64(256),
				"rotationPolicy": "Always"},
			"usages": []any{"digital signature", "server auth"},
			"issuerRef": map[string]any{"name": issuer.Name, "kind": issuer.Kind,
				"group": issuer.Group},
		},
	}}
	if len(addresses) > 0 {
		if err := unstructured.SetNestedSlice(certificate.Object, addresses, "spec",
			"ipAddresses"); err != nil {
			return err
		}
	}
	certificate.SetGroupVersionKind(Certificate)
	certificate.SetNamespace(s.cluster.Namespace)
	certificate.SetName(name)
	certificate.SetLabels(map[string]string{v1alpha1.LabelCluster: s.cluster.Name})
	return owned.Applier{Client: s.Client, Live: s.Live}.Apply(ctx, s.cluster, certificate)
}

func anySlice(values []string) []any {
	all := make([]any, len(values))
	for i, value := range values {
		all[i] = value
	}
	return all
}

// isNotInstalled reports whether the API server does not serve the kind Certificate.
func isNotInstalled(err error) bool {
	return meta.IsNoMatchError(err) || apierrors.IsNotFound(err)
}
