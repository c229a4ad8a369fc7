package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // kubectl's authentication methods
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/cli/forward"
	"heartwood.dev/heartwood/internal/cli/usage"
	"heartwood.dev/heartwood/internal/restmapper"
)

// flags contains the flags that all commands share.
type flags struct {
	kubeconfig, context, namespace, cluster, output string
}

func (f *flags) add(root *cobra.Command) {
	all := root.PersistentFlags()
	all.StringVar(&f.kubeconfig, "kubeconfig", "", "`FILE` configuration of kubectl")
	all.StringVar(&f.context, "context", "", "`NAME` context in the kubeconfig")
	all.StringVarP(&f.namespace, "namespace", "n", "", "`NAMESPACE` namespace of the LogCluster")
	all.StringVar(&f.cluster, "cluster", "",
		"`NAME` use this LogCluster (default: the only one of the namespace)")
	all.StringVarP(&f.output, "output", "o", "text", "`FORMAT` text or json")
}

// json reports whether the output is JSON.
func (f *flags) json() bool { return f.output == "json" }

// session is one command's connection to the API server.
type session struct {
	*flags
	config *rest.Config
	api    client.Client
	pods   *forward.Pods
	out    io.Writer
	errOut io.Writer
	// unread contains the kinds that the user may not read, in the order in which they were tried.
	unread []string
}

// open connects to the API server. The caller must close the session.
func (f *flags) open(cmd *cobra.Command) (*session, error) {
	if f.output != "text" && f.output != "json" {
		return nil, misused(cmd, "invalid argument %q for --output: give text or json", f.output)
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: f.context}
	overrides.Context.Namespace = f.namespace
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	s := &session{flags: f, config: config, out: cmd.OutOrStdout(), errOut: cmd.ErrOrStderr()}
	if f.namespace, _, err = loader.Namespace(); err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme,
		v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	s.api, err = client.New(config, client.Options{Scheme: scheme, Mapper: restmapper.New(
		restmapper.Namespaced(v1alpha1.GroupVersion, "LogCluster", "Topic", "PartitionSet",
			"LogUser"),
		restmapper.Namespaced(corev1.SchemeGroupVersion, "Pod", "Secret", "Event", "Service",
			"PersistentVolumeClaim", "ServiceAccount"),
		restmapper.Namespaced(appsv1.SchemeGroupVersion, "StatefulSet", "Deployment"),
		restmapper.Namespaced(coordinationv1.SchemeGroupVersion, "Lease"))})
	if err != nil {
		return nil, fmt.Errorf("create the client of the API server: %w", err)
	}
	s.pods = forward.New(config, f.namespace)
	return s, nil
}

func (s *session) close() { _ = s.pods.Close() }

// run returns a function for RunE that opens a session and calls do.
func (f *flags) run(do func(ctx context.Context, s *session, args []string) error) func(
	*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		s, err := f.open(cmd)
		if err != nil {
			return err
		}
		defer s.close()
		return do(cmd.Context(), s, args)
	}
}

// logCluster returns the LogCluster that the flags name, or the only one in the namespace.
func (s *session) logCluster(ctx context.Context) (*v1alpha1.LogCluster, error) {
	if s.cluster != "" {
		found := &v1alpha1.LogCluster{}
		return found, s.get(ctx, "LogCluster", s.cluster, found)
	}
	list := &v1alpha1.LogClusterList{}
	if err := s.api.List(ctx, list, client.InNamespace(s.namespace)); err != nil {
		return nil, fmt.Errorf("list the LogClusters of namespace %s: %w", s.namespace, err)
	}
	switch len(list.Items) {
	case 0:
		return nil, fmt.Errorf("namespace %s has no LogCluster: choose another one with -n",
			s.namespace)
	case 1:
		return &list.Items[0], nil
	}
	names := make([]string, len(list.Items))
	for i := range list.Items {
		names[i] = list.Items[i].Name
	}
	return nil, fmt.Errorf("namespace %s has the LogClusters %s: choose one with --cluster",
		s.namespace, strings.Join(names, ", "))
}

// get reads an object in the session's namespace.
func (s *session) get(ctx context.Context, kind, name string, into client.Object) error {
	err := s.api.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, into)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("namespace %s has no %s %s", s.namespace, kind, name)
	}
	if err != nil {
		return fmt.Errorf("get %s %s: %w", kind, name, err)
	}
	return nil
}

// topicsOf returns the Topics of a LogCluster.
func (s *session) topicsOf(ctx context.Context, cluster string) ([]v1alpha1.Topic, error) {
	list := &v1alpha1.TopicList{}
	if err := s.api.List(ctx, list, client.InNamespace(s.namespace)); err != nil {
		return nil, fmt.Errorf("list the Topics of namespace %s: %w", s.namespace, err)
	}
	topics := []v1alpha1.Topic{}
	for _, topic := range list.Items {
		if topic.Spec.Cluster == cluster {
			topics = append(topics, topic)
		}
	}
	return topics, nil
}

// errNoTopic means that no Topic has the name.
var errNoTopic = errors.New("not found")

// topic returns the Topic with the given name. The name of the resource takes precedence over the
// Kafka name.
func (s *session) topic(ctx context.Context, name string) (*v1alpha1.Topic, error) {
	return s.topicIn(ctx, name, s.cluster)
}

// topicIn is like topic, but considers only the Topics of a LogCluster, or all Topics in the
// namespace if cluster is "".
func (s *session) topicIn(ctx context.Context, name, cluster string) (*v1alpha1.Topic, error) {
	list := &v1alpha1.TopicList{}
	if err := s.api.List(ctx, list, client.InNamespace(s.namespace)); err != nil {
		return nil, fmt.Errorf("list the Topics of namespace %s: %w", s.namespace, err)
	}
	found := matches(list.Items, name, cluster)
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("topic %s in namespace %s: %w", name, s.namespace, errNoTopic)
	case 1:
		return found[0], nil
	}
	texts := make([]string, len(found))
	for i, topic := range found {
		texts[i] = fmt.Sprintf("Topic %s of LogCluster %s", topic.Name, topic.Spec.Cluster)
	}
	return nil, usage.New(fmt.Errorf("topic %s in namespace %s is ambiguous: %s: choose one with "+
		"--cluster, or give the name of the Topic", name, s.namespace, strings.Join(texts, ", ")))
}

// matches returns the Topic whose resource has the given name. If there is none, it returns the
// Topics with this name in Kafka, sorted by LogCluster. If cluster is not "", only that
// LogCluster's Topics are considered. If several Topics of a LogCluster claim the same name in
// Kafka, matches returns the one that the brokers use.
func matches(topics []v1alpha1.Topic, name, cluster string) []*v1alpha1.Topic {
	used := map[string]*v1alpha1.Topic{}
	for i := range topics {
		topic := &topics[i]
		found := topic.Spec.Cluster
		switch {
		case cluster != "" && found != cluster:
		case topic.Name == name:
			return []*v1alpha1.Topic{topic}
		case topic.KafkaName() != name:
		case used[found] == nil || usedBefore(topic, used[found]):
			used[found] = topic
		}
	}
	found := []*v1alpha1.Topic{}
	for _, cluster := range slices.Sorted(maps.Keys(used)) {
		found = append(found, used[cluster])
	}
	return found
}

// usedBefore reports whether brokers use Topic a instead of b, which has the same Kafka name.
// Brokers use the oldest Topic that is not being deleted.
func usedBefore(a, b *v1alpha1.Topic) bool {
	if deleted := !a.DeletionTimestamp.IsZero(); deleted != !b.DeletionTimestamp.IsZero() {
		return !deleted
	}
	return a.OlderThan(b)
}

// topicAndCluster returns a Topic and its LogCluster.
func (s *session) topicAndCluster(ctx context.Context, name string) (*v1alpha1.Topic,
	*v1alpha1.LogCluster, error) {
	topic, err := s.topic(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	cluster := &v1alpha1.LogCluster{}
	return topic, cluster, s.get(ctx, "LogCluster", topic.Spec.Cluster, cluster)
}

// optional lists objects in the namespace that a command can do without. It reports whether the
// user may read them.
func (s *session) optional(ctx context.Context, kind string, into client.ObjectList,
	options ...client.ListOption) (bool, error) {
	err := s.api.List(ctx, into, append(options, client.InNamespace(s.namespace))...)
	if apierrors.IsForbidden(err) {
		s.unread = append(s.unread, kind)
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("list the %s of namespace %s: %w", kind, s.namespace, err)
	}
	return true, nil
}

// patch modifies an object with change, and sends only the difference.
func patch[T client.Object](ctx context.Context, s *session, object T, change func(T)) error {
	before, ok := object.DeepCopyObject().(T)
	if !ok {
		return fmt.Errorf("copy %s: unexpected type", object.GetName())
	}
	change(object)
	if err := s.api.Patch(ctx, object, client.MergeFrom(before),
		client.FieldOwner("kubectl-heartwood")); err != nil {
		return fmt.Errorf("change %s: %w", object.GetName(), err)
	}
	return nil
}

// annotateLocked sets an annotation whose value was computed from the object. It fails if the
// object has been changed since it was read.
func annotateLocked[T client.Object](ctx context.Context, s *session, object T, key,
	value string) error {
	before, ok := object.DeepCopyObject().(T)
	if !ok {
		return fmt.Errorf("copy %s: unexpected type", object.GetName())
	}
	setAnnotation(object, key, value)
	err := s.api.Patch(ctx, object, client.MergeFromWithOptions(before,
		client.MergeFromWithOptimisticLock{}), client.FieldOwner("kubectl-heartwood"))
	if apierrors.IsConflict(err) {
		return fmt.Errorf("%s was changed at the same time: run the command again",
			object.GetName())
	}
	if err != nil {
		return fmt.Errorf("change %s: %w", object.GetName(), err)
	}
	return nil
}

// annotate sets an annotation of an object.
func annotate[T client.Object](ctx context.Context, s *session, object T, key,
	value string) error {
	return patch(ctx, s, object, func(object T) { setAnnotation(object, key, value) })
}

func setAnnotation(object client.Object, key, value string) {
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	object.SetAnnotations(annotations)
}
