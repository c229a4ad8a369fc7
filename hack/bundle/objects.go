package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

type object = unstructured.Unstructured

// chart is the part of Chart.yaml that the bundle uses.
type chart struct {
	Name, Description, KubeVersion, Icon, Home string
	Keywords                                   []string
	Annotations                                map[string]string
}

// link is a link in a ClusterServiceVersion.
type link struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}

func readChart(path string) (c chart, err error) {
	content, err := os.ReadFile(path)
	if err == nil {
		err = yaml.Unmarshal(content, &c)
	}
	if err != nil {
		return c, fmt.Errorf("read chart %s: %w", path, err)
	}
	return c, nil
}

// readObjects returns the objects in a file, without what only Helm uses.
func readObjects(path string) (objects []object, err error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read objects: %w", err)
	}
	decoder := yamlutil.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	for {
		var read object
		if err := decoder.Decode(&read); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, fmt.Errorf("read objects of %s: %w", path, err)
		}
		if len(read.Object) == 0 {
			continue
		}
		withoutHelm(read.Object, "metadata")
		withoutHelm(read.Object, "spec", "template", "metadata")
		objects = append(objects, read)
	}
}

// withoutHelm removes the labels and annotations that make an object part of a release of Helm. OLM
// adds labels of its own.
func withoutHelm(content map[string]any, path ...string) {
	for _, field := range []string{"labels", "annotations"} {
		values, found, _ := unstructured.NestedMap(content, append(path, field)...)
		if !found {
			continue
		}
		maps.DeleteFunc(values, func(key string, _ any) bool {
			return key == "app.kubernetes.io/managed-by" || strings.HasPrefix(key, "helm.sh/")
		})
		if len(values) == 0 {
			unstructured.RemoveNestedField(content, append(path, field)...)
		} else if err := unstructured.SetNestedMap(content, values, append(path, field)...); err != nil {
			panic(err) // the field was a map above
		}
	}
}

// documents returns objects as a file for kubectl apply.
func documents(objects []object) ([]byte, error) {
	var out bytes.Buffer
	for i := range objects {
		content, err := yaml.Marshal(objects[i].Object)
		if err != nil {
			return nil, fmt.Errorf("write object %s: %w", objects[i].GetName(), err)
		}
		out.WriteString("---\n")
		out.Write(content)
	}
	return out.Bytes(), nil
}

// only returns the objects of a kind.
func (s *source) only(kind string) (found []object) {
	for i := range s.rendered {
		if s.rendered[i].GetKind() == kind {
			found = append(found, s.rendered[i])
		}
	}
	return found
}

// policies returns the admission policies, which OLM does not install.
func (s *source) policies() []object {
	return append(s.only("ValidatingAdmissionPolicy"), s.only("ValidatingAdmissionPolicyBinding")...)
}

// manifests returns the objects of the bundle beside the ClusterServiceVersion, by file name. OLM
// chooses their namespace.
func (s *source) manifests() map[string]map[string]any {
	files := map[string]map[string]any{}
	for _, kind := range []string{"ConfigMap", "CustomResourceDefinition", "PodDisruptionBudget",
		"Service"} {
		for _, found := range s.only(kind) {
			manifest := found.DeepCopy()
			manifest.SetNamespace("")
			name := strings.ToLower(kind) + "-" + manifest.GetName() + ".yaml"
			files[name] = manifest.Object
		}
	}
	return files
}
