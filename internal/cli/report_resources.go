package cli

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/operator/render"
	"heartwood.dev/heartwood/internal/version"
)

// collect adds all parts of a report.
func (s *session) collect(ctx context.Context, a *archive, cluster *v1alpha1.LogCluster,
	account account) {
	about := fmt.Sprintf("LogCluster %s in namespace %s\nkubectl heartwood %s (%s)\n", cluster.Name,
		s.namespace, version.Version(), version.Commit())
	a.add("about.txt", []byte(about))
	selected := &selection{cluster: cluster, names: map[string]bool{}}
	for _, kind := range []struct {
		name string
		list client.ObjectList
	}{
		{"logclusters", &v1alpha1.LogClusterList{}}, {"topics", &v1alpha1.TopicList{}},
		{"logusers", &v1alpha1.LogUserList{}}, {"partitionsets", &v1alpha1.PartitionSetList{}},
		{"statefulsets", &appsv1.StatefulSetList{}}, {"pods", &corev1.PodList{}},
		{"persistentvolumeclaims", &corev1.PersistentVolumeClaimList{}},
		{"services", &corev1.ServiceList{}}, {"leases", &coordinationv1.LeaseList{}},
		{"secrets", &corev1.SecretList{}}, {"events", &corev1.EventList{}}, // events must come last
	} {
		s.collectList(ctx, a, "resources/"+kind.name+".yaml", kind.list, selected)
	}
	s.collectLogs(ctx, a, cluster)
	s.collectOperator(ctx, a)
	s.collectBrokers(ctx, a, cluster, account)
}

// collectList adds those objects of a kind that belong to the LogCluster.
func (s *session) collectList(ctx context.Context, a *archive, name string, list client.ObjectList,
	selected *selection) {
	if err := s.api.List(ctx, list, client.InNamespace(s.namespace)); err != nil {
		a.missing(name, err)
		return
	}
	all, err := meta.ExtractList(list)
	if err != nil {
		a.missing(name, err)
		return
	}
	all = slices.DeleteFunc(all, func(object runtime.Object) bool { return !selected.has(object) })
	for _, object := range all {
		redact(object)
	}
	err = meta.SetList(list, all)
	content, encoded := yaml.Marshal(list)
	if err = errors.Join(err, encoded); err != nil {
		a.missing(name, err)
		return
	}
	a.add(name, content)
}

// selection determines which objects in the namespace belong to a LogCluster.
type selection struct {
	cluster *v1alpha1.LogCluster
	names   map[string]bool // "KIND/NAME" of the objects selected so far
}

// has reports whether an object belongs to the LogCluster. An event belongs to it if the event's
// object has been selected or is a pod of a broker, even if the pod no longer exists.
func (s *selection) has(object runtime.Object) bool {
	var selected bool
	switch o := object.(type) {
	case *v1alpha1.LogCluster:
		selected = o.Name == s.cluster.Name
	case *v1alpha1.Topic:
		selected = o.Spec.Cluster == s.cluster.Name
	case *v1alpha1.LogUser:
		selected = o.Spec.Cluster == s.cluster.Name
	case *v1alpha1.PartitionSet:
		selected = o.Spec.Cluster == s.cluster.Name
	case *corev1.Event:
		cluster, _, ok := v1alpha1.ParseBrokerLeaseName(o.InvolvedObject.Name)
		return s.names[o.InvolvedObject.Kind+"/"+o.InvolvedObject.Name] ||
			ok && cluster == s.cluster.Name
	default:
		selected = s.owns(object)
	}
	if accessor, err := meta.Accessor(object); err == nil && selected {
		s.names[reflect.TypeOf(object).Elem().Name()+"/"+accessor.GetName()] = true
	}
	return selected
}

// owns reports whether an object was created for the LogCluster. This is determined by its labels
// or its owner.
func (s *selection) owns(object runtime.Object) bool {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return false
	}
	if accessor.GetLabels()[v1alpha1.LabelCluster] == s.cluster.Name {
		return true
	}
	// Persistent volume claims have only the labels that select the pods.
	brokers := labels.SelectorFromSet(render.Selector(s.cluster))
	return brokers.Matches(labels.Set(accessor.GetLabels())) ||
		slices.ContainsFunc(accessor.GetOwnerReferences(), func(owner metav1.OwnerReference) bool {
			return owner.UID == s.cluster.UID
		})
}

// redact removes everything from an object that may contain secrets.
func redact(object runtime.Object) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
		// This annotation contains a copy of the object, which kubectl apply stores there. The copy of a
		// Secret contains the Secret's values.
		delete(accessor.GetAnnotations(), corev1.LastAppliedConfigAnnotation)
	}
	switch o := object.(type) {
	case *corev1.Secret:
		redactSecret(o)
	case *corev1.Pod:
		redactPod(&o.Spec, render.ContainerName)
	case *appsv1.StatefulSet:
		redactTemplate(&o.Spec.Template, render.ContainerName)
	case *appsv1.Deployment:
		redactTemplate(&o.Spec.Template, operatorContainer)
	}
}

// redactSecret replaces the values of a Secret with their sizes. It also removes the annotations,
// because tools other than kubectl may store values there.
func redactSecret(secret *corev1.Secret) {
	sizes := map[string]string{}
	for key, value := range secret.Data {
		sizes[key] = fmt.Sprintf("<%d bytes>", len(value))
	}
	secret.Data, secret.StringData, secret.Annotations = nil, sizes, nil
}

func redactTemplate(template *corev1.PodTemplateSpec, own string) {
	delete(template.Annotations, corev1.LastAppliedConfigAnnotation)
	redactPod(&template.Spec, own)
}

// redactPod replaces the environment, arguments, commands and HTTP requests of all containers
// except Heartwood's own, because a webhook may have added other containers. own is the name of
// Heartwood's container.
func redactPod(pod *corev1.PodSpec, own string) {
	for i := range pod.InitContainers {
		redactContainer(&pod.InitContainers[i], own)
	}
	for i := range pod.Containers {
		redactContainer(&pod.Containers[i], own)
	}
	for i := range pod.EphemeralContainers {
		c := corev1.Container(pod.EphemeralContainers[i].EphemeralContainerCommon)
		redactContainer(&c, own)
		pod.EphemeralContainers[i].EphemeralContainerCommon = corev1.EphemeralContainerCommon(c)
	}
}

func redactContainer(c *corev1.Container, own string) {
	if c.Name == own {
		return
	}
	for i := range c.Env {
		if c.Env[i].Value != "" {
			c.Env[i].Value = redacted(c.Env[i].Value)
		}
	}
	redactWords(c.Command)
	redactWords(c.Args)
	for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		if probe != nil {
			redactHandler(probe.Exec, probe.HTTPGet)
		}
	}
	if c.Lifecycle != nil {
		for _, hook := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
			if hook != nil {
				redactHandler(hook.Exec, hook.HTTPGet)
			}
		}
	}
}

// redactHandler redacts a probe or a lifecycle hook, because a request's path may contain a token.
func redactHandler(exec *corev1.ExecAction, get *corev1.HTTPGetAction) {
	if exec != nil {
		redactWords(exec.Command)
	}
	if get == nil {
		return
	}
	if get.Path != "" {
		get.Path = redacted(get.Path)
	}
	for i := range get.HTTPHeaders {
		get.HTTPHeaders[i].Value = redacted(get.HTTPHeaders[i].Value)
	}
}

func redactWords(words []string) {
	for i := range words {
		words[i] = redacted(words[i])
	}
}

func redacted(text string) string { return fmt.Sprintf("<%d bytes>", len(text)) }
