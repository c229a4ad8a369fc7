package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/console"
)

const (
	// requestTimeout limits one request to the API server.
	requestTimeout = 5 * time.Second
	// listPage is the maximum number of resources in one response, and listMax the maximum number in a
	// list.
	listPage = 500
	listMax  = 100_000
)

// Authority implements console.Authority. It is safe for concurrent use.
type Authority struct {
	authentication, authorization rest.Interface
}

// NewAuthority returns an Authority that uses the API server in config. It uses only the address
// and the CA from config, and sends no request.
func NewAuthority(config *rest.Config) (*Authority, error) {
	anonymous := rest.AnonymousClientConfig(config)
	anonymous.Timeout, anonymous.QPS = requestTimeout, -1
	anonymous.WarningHandler = rest.NoWarnings{}
	anonymous.WarningHandlerWithContext = nil
	http, err := rest.HTTPClientFor(anonymous)
	if err != nil {
		return nil, fmt.Errorf("create the client of users: %w", err)
	}
	authentication, err := authenticationclient.NewForConfigAndClient(anonymous, http)
	if err != nil {
		return nil, fmt.Errorf("create the client of users: %w", err)
	}
	authorization, err := authorizationclient.NewForConfigAndClient(anonymous, http)
	if err != nil {
		return nil, fmt.Errorf("create the client of users: %w", err)
	}
	return &Authority{authentication.RESTClient(), authorization.RESTClient()}, nil
}

// User implements console.Authority with a SelfSubjectReview.
func (a *Authority) User(ctx context.Context, token string) (string, error) {
	if token == "" { // without a token the request would be anonymous
		return "", console.ErrToken
	}
	review := &authenticationv1.SelfSubjectReview{}
	err := as(a.authentication.Post(), token).Resource("selfsubjectreviews").Body(review).Do(ctx).
		Into(review)
	if err != nil {
		return "", failure("review the token", err)
	}
	name := review.Status.UserInfo.Username
	if name == "" || name == "system:anonymous" {
		return "", console.ErrToken
	}
	return name, nil
}

// May implements console.Authority.
func (a *Authority) May(ctx context.Context, token string, cluster console.ClusterName,
	right console.Right) (bool, error) {
	if token == "" {
		return false, console.ErrToken
	}
	return may(ctx, as(a.authorization.Post(), token), cluster, right)
}

// Clean implements console.Authority by setting the Topic's annotation heartwood.dev/clean-now.
func (a *Authority) Clean(ctx context.Context, token string, cluster console.ClusterName,
	topic string) error {
	if token == "" {
		return console.ErrToken
	}
	name, err := a.topic(ctx, token, cluster, topic)
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"annotations": map[string]string{v1alpha1.AnnotationCleanNow: "console-" +
			time.Now().UTC().Format("20060102T150405.000Z")}}})
	if err != nil {
		return err
	}
	err = as(a.authorization.Patch(types.MergePatchType), token).
		AbsPath(topicsPath(cluster.Namespace)+"/"+url.PathEscape(name)).
		Param("fieldManager", "heartwood-console").Body(patch).Do(ctx).Error()
	return failure("patch topic "+name, err)
}

// topic returns the name of the Topic resource for a Kafka topic name.
func (a *Authority) topic(ctx context.Context, token string, cluster console.ClusterName,
	kafkaName string) (string, error) {
	var found *v1alpha1.Topic
	err := a.pages(ctx, token, topicsPath(cluster.Namespace), "list topics",
		func(content []byte) (string, error) {
			var page v1alpha1.TopicList
			if err := json.Unmarshal(content, &page); err != nil {
				return "", err
			}
			for i := range page.Items {
				topic := &page.Items[i]
				// If several Topics claim the same name, brokers use the oldest one.
				if topic.Spec.Cluster == cluster.Name && topic.KafkaName() == kafkaName &&
					topic.DeletionTimestamp.IsZero() && (found == nil || topic.OlderThan(found)) {
					found = topic
				}
			}
			return page.Continue, nil
		})
	if err != nil {
		return "", err
	}
	if found == nil {
		return "", fmt.Errorf("namespace %s has no Topic for %s", cluster.Namespace, kafkaName)
	}
	return found.Name, nil
}

func topicsPath(namespace string) string {
	return "/apis/" + v1alpha1.GroupVersion.String() + "/namespaces/" + url.PathEscape(namespace) +
		"/topics"
}

// as adds the user's token, which must not be empty, to a request.
func as(request *rest.Request, token string) *rest.Request {
	return request.SetHeader("Authorization", "Bearer "+token)
}

// failure returns the error for a failed request to the API server. The error is console.ErrToken
// if the API server does not accept the token. Otherwise it describes the failure, and wraps
// console.ErrForbidden if the user lacks the right.
func failure(what string, err error) error {
	if err == nil {
		return nil
	}
	if apierrors.IsUnauthorized(err) || errors.Is(err, console.ErrToken) {
		return console.ErrToken
	}
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w: %s: %w", console.ErrForbidden, what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}
