package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/console"
)

// LogUsers implements console.Authority. It lists the cluster's LogUsers in its namespace.
func (a *Authority) LogUsers(ctx context.Context, token string,
	cluster console.ClusterName) (users []console.LogUser, err error) {
	if token == "" {
		return nil, console.ErrToken
	}
	path := "/apis/" + v1alpha1.GroupVersion.String() + "/namespaces/" +
		url.PathEscape(cluster.Namespace) + "/logusers"
	err = a.pages(ctx, token, path, "list logusers", func(content []byte) (string, error) {
		var page v1alpha1.LogUserList
		if err := json.Unmarshal(content, &page); err != nil {
			return "", err
		}
		for i := range page.Items {
			if page.Items[i].Spec.Cluster == cluster.Name {
				users = append(users, logUserOf(&page.Items[i]))
			}
		}
		return page.Continue, nil
	})
	slices.SortFunc(users, func(a, b console.LogUser) int { return strings.Compare(a.Name, b.Name) })
	return users, err
}

func logUserOf(logUser *v1alpha1.LogUser) console.LogUser {
	user := console.LogUser{Name: logUser.Name, Principal: "User:" + logUser.PrincipalName(),
		Authentication: string(logUser.Spec.Authentication.Type), ACLs: len(logUser.Spec.ACLs),
		Message: "The operator has not reported on it yet."}
	if ready := meta.FindStatusCondition(logUser.Status.Conditions, "Ready"); ready != nil {
		user.Ready, user.Message = ready.Status == metav1.ConditionTrue, ready.Message
	}
	return user
}

// pages reads a list page by page. It calls add for each page; add returns the continue token of
// the next page.
func (a *Authority) pages(ctx context.Context, token, path, what string,
	add func(content []byte) (next string, err error)) error {
	for next, read := "", 0; read < listMax; read += listPage {
		result := as(a.authorization.Get(), token).AbsPath(path).
			Param("limit", strconv.Itoa(listPage)).Param("continue", next).Do(ctx)
		if err := result.Error(); err != nil { // unlike Raw, Error returns the message of a refusal
			return failure(what, err)
		}
		content, err := result.Raw()
		if err != nil {
			return failure(what, err)
		}
		if next, err = add(content); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if next == "" {
			return nil
		}
	}
	return nil
}
