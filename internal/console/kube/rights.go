package kube

import (
	"context"
	"fmt"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/console"
)

// Rights returns a function that reports whether the user in the configuration has a right on the
// LogCluster. Rights itself sends no request.
func Rights(config *rest.Config, cluster console.ClusterName) (func(context.Context,
	console.Right) (bool, error), error) {
	limited := rest.CopyConfig(config)
	limited.Timeout = requestTimeout
	client, err := authorizationclient.NewForConfig(limited)
	if err != nil {
		return nil, fmt.Errorf("create the client of reviews: %w", err)
	}
	return func(ctx context.Context, right console.Right) (bool, error) {
		return may(ctx, client.RESTClient().Post(), cluster, right)
	}, nil
}

// may reports whether the user who sends request has a right on the LogCluster. It uses a
// SelfSubjectAccessReview or, for CleanSome, a SelfSubjectRulesReview.
func may(ctx context.Context, request *rest.Request, cluster console.ClusterName,
	right console.Right) (bool, error) {
	attributes := &authorizationv1.ResourceAttributes{Namespace: cluster.Namespace, Verb: "get",
		Group: v1alpha1.GroupVersion.Group, Version: v1alpha1.GroupVersion.Version,
		Resource: "logclusters", Name: cluster.Name}
	switch right {
	case console.ReadReport:
		attributes.Subresource = "report"
	case console.ReadRecords:
		attributes.Subresource = "records"
	case console.Clean:
		attributes.Verb, attributes.Resource, attributes.Name = "patch", "topics", ""
	case console.WriteRecords:
		attributes.Verb, attributes.Subresource = "create", "records"
	case console.WriteGroups:
		attributes.Verb, attributes.Subresource = "update", "groups"
	case console.Abort:
		attributes.Verb, attributes.Subresource = "create", "abort"
	case console.ListUsers:
		attributes.Verb, attributes.Resource, attributes.Name = "list", "logusers", ""
	case console.CleanSome:
		return mayCleanSome(ctx, request, cluster.Namespace)
	default:
		return false, fmt.Errorf("review right %d: unknown right", right)
	}
	answer := &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: attributes}}
	err := review(ctx, request, "selfsubjectaccessreviews", answer)
	return err == nil && answer.Status.Allowed && !answer.Status.Denied, err
}

// mayCleanSome reports whether an RBAC rule permits the user to patch Topics that the rule names.
// An access review without a resource name ignores such rules, and one with a resource name needs
// the Topics' names. Rules of authorizers that cannot list them, such as webhooks, may be missed.
func mayCleanSome(ctx context.Context, request *rest.Request, namespace string) (bool, error) {
	answer := &authorizationv1.SelfSubjectRulesReview{
		Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}
	if err := review(ctx, request, "selfsubjectrulesreviews", answer); err != nil {
		return false, err
	}
	has := func(all []string, one string) bool {
		return slices.Contains(all, one) || slices.Contains(all, "*")
	}
	return slices.ContainsFunc(answer.Status.ResourceRules,
		func(rule authorizationv1.ResourceRule) bool {
			return len(rule.ResourceNames) > 0 && has(rule.Verbs, "patch") &&
				has(rule.APIGroups, v1alpha1.GroupVersion.Group) && has(rule.Resources, "topics")
		}), nil
}

// review sends an access review and stores the response in object.
func review(ctx context.Context, request *rest.Request, resource string,
	object runtime.Object) error {
	return failure("review permissions", request.Resource(resource).Body(object).Do(ctx).Into(object))
}
