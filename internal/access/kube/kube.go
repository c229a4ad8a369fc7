// Package kube sends requests to the API server for a broker's HTTP port. It reads the public keys
// that verify ServiceAccount tokens, and asks for the permissions of a ServiceAccount.
//
// TokenReview would need cluster-wide permissions. So the broker verifies tokens with the API
// server's public keys, which every ServiceAccount may read (ClusterRole
// system:service-account-issuer-discovery), and reviews permissions only in the namespace of the
// LogCluster (LocalSubjectAccessReview).
package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/access"
	"heartwood.dev/heartwood/internal/tokens"
)

const (
	// requestTimeout limits one request to the API server.
	requestTimeout = 5 * time.Second
	// discoveryPath and keysPath are paths on the API server (OpenID Connect Discovery). The URL of
	// the keys in the discovery document is ignored, because it can point outside the API server.
	discoveryPath = "/.well-known/openid-configuration"
	keysPath      = "/openid/v1/jwks"
	// accountPrefix is the prefix of every ServiceAccount's user name.
	accountPrefix = "system:serviceaccount:"
)

// Client sends requests to the API server. It is safe for concurrent use.
type Client struct {
	client             *authorizationclient.AuthorizationV1Client
	namespace, cluster string
}

// New returns a client for a LogCluster. It sends no request.
func New(config *rest.Config, namespace, cluster string) (*Client, error) {
	limited := rest.CopyConfig(config)
	limited.Timeout, limited.QPS = requestTimeout, -1
	client, err := authorizationclient.NewForConfig(limited)
	if err != nil {
		return nil, fmt.Errorf("create the client for permissions: %w", err)
	}
	return &Client{client, namespace, cluster}, nil
}

// Keys reads the issuer and the public keys of ServiceAccount tokens.
func (c *Client) Keys(ctx context.Context) (tokens.Found, error) {
	get := func(path string) ([]byte, error) {
		// The API server returns the keys at keysPath with another media type than application/json.
		content, err := c.client.RESTClient().Get().AbsPath(path).SetHeader("Accept", "*/*").
			DoRaw(ctx)
		if err != nil {
			return nil, fmt.Errorf("read %s of the API server: %w", path, err)
		}
		return content, nil
	}
	content, err := get(discoveryPath)
	if err != nil {
		return tokens.Found{}, err
	}
	var discovery struct {
		Issuer string `json:"issuer"`
	}
	if err := json.Unmarshal(content, &discovery); err != nil {
		return tokens.Found{}, fmt.Errorf("decode %s of the API server: %w", discoveryPath, err)
	}
	if discovery.Issuer == "" {
		return tokens.Found{}, errors.New("the API server has no issuer of tokens")
	}
	content, err = get(keysPath)
	return tokens.Found{Issuer: discovery.Issuer, JWKS: content}, err
}

// Review reports whether a ServiceAccount has a right on the LogCluster.
func (c *Client) Review(ctx context.Context, user string, right access.Right) (bool, error) {
	groups, ok := groupsOf(user)
	if !ok {
		return false, nil
	}
	review, err := c.client.LocalSubjectAccessReviews(c.namespace).Create(ctx,
		&authorizationv1.LocalSubjectAccessReview{
			ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace},
			Spec: authorizationv1.SubjectAccessReviewSpec{User: user, Groups: groups,
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: c.namespace, Verb: right.Verb, Group: v1alpha1.GroupVersion.Group,
					Version: v1alpha1.GroupVersion.Version, Resource: "logclusters",
					Subresource: right.Subresource, Name: c.cluster,
				}},
		}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("review permissions: %w", err)
	}
	return review.Status.Allowed && !review.Status.Denied, nil
}

// groupsOf derives a ServiceAccount's groups from its user name, as the API server does.
func groupsOf(user string) (groups []string, ok bool) {
	rest, found := strings.CutPrefix(user, accountPrefix)
	namespace, name, separated := strings.Cut(rest, ":")
	if !found || !separated || namespace == "" || name == "" || strings.Contains(name, ":") {
		return nil, false
	}
	return []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace,
		"system:authenticated"}, true
}
