package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// strict decodes manifests of all Kubernetes kinds and CRDs, and rejects unknown and duplicate
// fields.
var strict = func() runtime.Decoder {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme,
		apiextensionsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
}()

// decode decodes all documents and rejects unknown fields. Kinds without a Go type (of the
// Prometheus operator) are only parsed as YAML.
func decode(in io.Reader) ([]runtime.Object, error) {
	var objects []runtime.Object
	documents := utilyaml.NewYAMLReader(bufio.NewReader(in))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the manifests: %w", err)
		}
		object, err := decodeOne(document)
		if err != nil {
			return nil, err
		}
		if object != nil {
			objects = append(objects, object)
		}
	}
}

func decodeOne(document []byte) (runtime.Object, error) {
	var fields map[string]any
	if err := yaml.UnmarshalStrict(document, &fields); err != nil {
		return nil, fmt.Errorf("parse a manifest: %w\n%s", err, document)
	}
	if len(fields) == 0 {
		return nil, nil //nolint:nilnil // a document that contains only comments is valid
	}
	object, _, err := strict.Decode(document, nil, nil)
	if runtime.IsNotRegisteredError(err) {
		return &unstructured.Unstructured{Object: fields}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("decode a manifest: %w\n%s", err, document)
	}
	return object, nil
}

func check(objects []runtime.Object,
	generated map[string]*apiextensionsv1.CustomResourceDefinition) error {
	var faults []error
	for _, object := range objects {
		switch object := object.(type) {
		case *appsv1.Deployment:
			faults = append(faults, restricted(object.Name, &object.Spec.Template.Spec))
		case *rbacv1.ClusterRole:
			if len(object.Rules) == 0 {
				faults = append(faults, fmt.Errorf("ClusterRole %s has no rules", object.Name))
			}
			faults = append(faults, leastRights(object, object.Rules))
		case *rbacv1.Role:
			faults = append(faults, leastRights(object, object.Rules))
		case *apiextensionsv1.CustomResourceDefinition:
			faults = append(faults, sameCRD(object, generated[object.Name]))
		}
	}
	return errors.Join(faults...)
}

// leastRights checks the permissions of the console, which many users can reach. The console must
// change nothing, read only Secrets that a Role names, and create only tokens that a Role names.
func leastRights(role metav1.Object, rules []rbacv1.PolicyRule) error {
	if role.GetLabels()["app.kubernetes.io/component"] != "console" {
		return nil
	}
	for _, rule := range rules {
		for _, verb := range rule.Verbs {
			reads := verb == "get" || verb == "list"
			token := verb == "create" && slices.Equal(rule.Resources, []string{"serviceaccounts/token"})
			if !reads && !token {
				return fmt.Errorf("role %s lets the console %s %v", role.GetName(), verb, rule.Resources)
			}
		}
		list := slices.Contains(rule.Verbs, "list")
		if public := slices.Equal(rule.Resources, []string{"logclusters"}); !public &&
			(len(rule.ResourceNames) == 0 || list) {
			return fmt.Errorf("role %s gives the console all %v", role.GetName(), rule.Resources)
		}
	}
	return nil
}

// restricted checks that a pod satisfies the restricted profile of the Pod Security Standards. It
// also checks that each container has a read-only root file system, probes and resource requests.
func restricted(name string, pod *corev1.PodSpec) error {
	context := pod.SecurityContext
	if context == nil || context.RunAsNonRoot == nil || !*context.RunAsNonRoot ||
		context.SeccompProfile == nil {
		return fmt.Errorf("pod of %s may run as root or without a seccomp profile", name)
	}
	for i := range pod.Containers {
		container := &pod.Containers[i]
		security := container.SecurityContext
		if security == nil || security.AllowPrivilegeEscalation == nil ||
			*security.AllowPrivilegeEscalation ||
			security.ReadOnlyRootFilesystem == nil || !*security.ReadOnlyRootFilesystem ||
			security.Capabilities == nil || len(security.Capabilities.Drop) != 1 ||
			security.Capabilities.Drop[0] != "ALL" {
			return fmt.Errorf("container %s of %s is not restricted", container.Name,
				name)
		}
		if container.LivenessProbe == nil || container.ReadinessProbe == nil ||
			container.Resources.Requests == nil {
			return fmt.Errorf("container %s of %s has no probes or resource requests",
				container.Name, name)
		}
	}
	return nil
}

// sameCRD checks that a CRD rendered by the chart equals the generated CRD, including numbers and
// CEL rules, and that helm uninstall keeps the CRD.
func sameCRD(rendered, generated *apiextensionsv1.CustomResourceDefinition) error {
	switch {
	case generated == nil:
		return fmt.Errorf("CRD %s is not generated from the code", rendered.Name)
	case rendered.Annotations["helm.sh/resource-policy"] != "keep":
		return fmt.Errorf("CRD %s would be deleted with the chart, and all its resources with it",
			rendered.Name)
	case !equality.Semantic.DeepEqual(rendered.Spec, generated.Spec):
		return fmt.Errorf("CRD %s in the chart differs from config/crd: run make generate",
			rendered.Name)
	}
	return nil
}

func readCRDs(directory string) (map[string]*apiextensionsv1.CustomResourceDefinition, error) {
	files, err := filepath.Glob(filepath.Join(directory, "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("list CRDs: %w", err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("directory %s contains no CRDs", directory)
	}
	generated := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read a CRD: %w", err)
		}
		object, err := decodeOne(content)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		crd, ok := object.(*apiextensionsv1.CustomResourceDefinition)
		if !ok {
			return nil, fmt.Errorf("%s contains no CRD", file)
		}
		generated[crd.Name] = crd
	}
	return generated, nil
}
