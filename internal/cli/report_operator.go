package cli

import (
	"context"
	"errors"
	"fmt"
	"path"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// operatorContainer is the name of the operator's container in the chart's Deployment.
const operatorContainer = "operator"

// operatorLabels are the labels of the chart's Deployment.
var operatorLabels = client.MatchingLabels{"app.kubernetes.io/name": "heartwood",
	"app.kubernetes.io/component": "operator"}

// collectOperator adds the operators' Deployments and the logs of their pods.
func (s *session) collectOperator(ctx context.Context, a *archive) {
	const directory = "operator"
	deployments, err := s.operators(ctx)
	if err != nil {
		a.missing(directory, err)
		return
	}
	pods, err := corev1client.NewForConfig(s.config)
	if err != nil {
		a.missing(directory, err)
		return
	}
	for i := range deployments {
		deployment := &deployments[i]
		in := path.Join(directory, deployment.Namespace)
		name := path.Join(in, deployment.Name+".yaml")
		redact(deployment)
		content, err := yaml.Marshal(deployment)
		if err != nil {
			a.missing(name, err)
			continue
		}
		a.add(name, content)
		s.collectOperatorLogs(ctx, a, pods, in, deployment)
	}
}

// operators returns the operators' Deployments in all namespaces. If the user may not list them, it
// returns those in the LogCluster's namespace.
func (s *session) operators(ctx context.Context) ([]appsv1.Deployment, error) {
	list := &appsv1.DeploymentList{}
	err := s.api.List(ctx, list, operatorLabels)
	where := "the API server has"
	if apierrors.IsForbidden(err) {
		where = fmt.Sprintf("you may not list the Deployments of all namespaces, and namespace %s has",
			s.namespace)
		err = s.api.List(ctx, list, operatorLabels, client.InNamespace(s.namespace))
	}
	if err == nil && len(list.Items) == 0 {
		err = errors.New(where + " no Deployment of an operator")
	}
	return list.Items, err
}

// collectOperatorLogs adds the logs of the current and previous containers in a Deployment's pods.
func (s *session) collectOperatorLogs(ctx context.Context, a *archive,
	pods corev1client.CoreV1Interface, directory string, deployment *appsv1.Deployment) {
	selector, err := metav1.LabelSelectorAsSelector(deployment.Spec.Selector)
	list := &corev1.PodList{}
	if err == nil {
		err = s.api.List(ctx, list, client.InNamespace(deployment.Namespace),
			client.MatchingLabelsSelector{Selector: selector})
	}
	if err == nil && len(list.Items) == 0 {
		err = errors.New("the Deployment has no pods")
	}
	if err != nil {
		a.missing(path.Join(directory, deployment.Name+" logs"), err)
		return
	}
	for i := range list.Items {
		for _, previous := range []bool{false, true} {
			a.collectLog(ctx, pods.Pods(deployment.Namespace), directory, list.Items[i].Name,
				&corev1.PodLogOptions{Container: operatorContainer, Previous: previous})
		}
	}
}
