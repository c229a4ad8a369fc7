package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// description is the text that catalogs show.
//
//go:embed description.md
var description string

// csv returns the ClusterServiceVersion by its file name.
func (s *source) csv() (map[string]map[string]any, error) {
	deployment, err := s.deployment()
	if err != nil {
		return nil, err
	}
	owned, err := s.owned()
	if err != nil {
		return nil, err
	}
	examples, err := s.examples()
	if err != nil {
		return nil, err
	}
	icon, err := s.icon()
	if err != nil {
		return nil, err
	}
	minimum := regexp.MustCompile(`^>=(\d+\.\d+\.\d+)`).FindStringSubmatch(s.chart.KubeVersion)
	if minimum == nil {
		return nil, fmt.Errorf("kubeVersion %q of the chart: want >=VERSION", s.chart.KubeVersion)
	}
	containers, _, _ := unstructured.NestedSlice(deployment, "template", "spec", "containers")
	image := containers[0].(map[string]any)["image"].(string)
	spec := map[string]any{
		"version": strings.TrimPrefix(s.version, "v"), "displayName": "Heartwood",
		"description": description, "icon": []any{icon}, "maturity": "alpha",
		"minKubeVersion": minimum[1], "keywords": s.chart.Keywords,
		"provider":                  link{Name: "Heartwood", URL: s.chart.Home},
		"links":                     []link{{Name: "Heartwood", URL: s.chart.Home}},
		"relatedImages":             []any{map[string]any{"name": "heartwood", "image": image}},
		"installModes":              installModes,
		"customresourcedefinitions": map[string]any{"owned": owned},
		"install": map[string]any{"strategy": "deployment", "spec": map[string]any{
			"permissions": s.permissions(), "deployments": []any{map[string]any{
				"name": s.only("Deployment")[0].GetName(), "spec": deployment}}}},
	}
	if s.replaces != "" {
		spec["replaces"] = s.chart.Name + "." + s.replaces
	}
	return map[string]map[string]any{s.chart.Name + ".clusterserviceversion.yaml": {
		"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
		"metadata": map[string]any{"name": s.chart.Name + "." + s.version,
			"labels": s.platforms(), "annotations": map[string]string{
				"alm-examples":   examples,
				"capabilities":   s.chart.Annotations["artifacthub.io/operatorCapabilities"],
				"categories":     "Streaming & Messaging",
				"containerImage": image,
				"createdAt":      s.created,
				"description":    s.chart.Description,
				// Catalogs do not offer users to create these.
				"operators.operatorframework.io/internal-objects": `["partitionsets.heartwood.dev"]`,
			}},
		"spec": spec,
	}}, nil
}

// platforms returns the labels by which consoles offer the operator only to clusters whose nodes
// can run it.
func (s *source) platforms() map[string]string {
	const prefix = "operatorframework.io/"
	labels := map[string]string{prefix + "os.linux": "supported"}
	for arch := range strings.SplitSeq(s.archs, ",") {
		labels[prefix+"arch."+arch] = "supported"
	}
	return labels
}

// installModes are those that the operator supports: flag --namespaces of the operator takes any
// list, and the empty list means all namespaces.
var installModes = []map[string]any{
	{"type": "OwnNamespace", "supported": true}, {"type": "SingleNamespace", "supported": true},
	{"type": "MultiNamespace", "supported": true}, {"type": "AllNamespaces", "supported": true},
}

// deployment returns the spec of the operator's Deployment. OLM writes the namespaces to watch into
// an annotation of its pods, "" for all namespaces.
func (s *source) deployment() (map[string]any, error) {
	deployments := s.only("Deployment")
	if len(deployments) != 1 {
		return nil, fmt.Errorf("the rendered chart has %d Deployments, want the operator's",
			len(deployments))
	}
	spec := deployments[0].DeepCopy().Object["spec"].(map[string]any)
	path := []string{"template", "spec", "containers"}
	containers, _, err := unstructured.NestedSlice(spec, path...)
	if err != nil || len(containers) != 1 {
		return nil, fmt.Errorf("the operator has %d containers, want 1: %w", len(containers), err)
	}
	container := containers[0].(map[string]any)
	container["args"] = append(container["args"].([]any), "--namespaces=$(WATCH_NAMESPACE)")
	container["env"] = append(container["env"].([]any), map[string]any{"name": "WATCH_NAMESPACE",
		"valueFrom": map[string]any{"fieldRef": map[string]any{
			"fieldPath": "metadata.annotations['olm.targetNamespaces']"}}})
	return spec, unstructured.SetNestedSlice(spec, containers, path...)
}

// permissions returns the rules of the operator's roles. OLM grants them in the namespaces that the
// operator watches, as the chart does, and in the whole cluster if these are all namespaces.
// Permissions of clusterPermissions would apply in the whole cluster in each case.
func (s *source) permissions() []any {
	var rules []any
	for _, kind := range []string{"ClusterRole", "Role"} {
		for _, role := range s.only(kind) {
			granted, _, _ := unstructured.NestedSlice(role.Object, "rules")
			rules = append(rules, granted...)
		}
	}
	account, _, _ := unstructured.NestedString(s.only("Deployment")[0].Object, "spec", "template",
		"spec", "serviceAccountName")
	return []any{map[string]any{"serviceAccountName": account, "rules": rules}}
}

// icon returns the chart's icon, which is a data URL.
func (s *source) icon() (map[string]any, error) {
	found := regexp.MustCompile(`^data:([a-z+/]+);base64,(.+)$`).FindStringSubmatch(s.chart.Icon)
	if found == nil {
		return nil, fmt.Errorf("icon of the chart: want a data URL in base64, got %.20q", s.chart.Icon)
	}
	return map[string]any{"mediatype": found[1], "base64data": found[2]}, nil
}

// examples returns the sample resources in JSON.
func (s *source) examples() (string, error) {
	all := make([]any, len(s.samples))
	for i := range s.samples {
		all[i] = s.samples[i].Object
	}
	content, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return "", fmt.Errorf("write the examples: %w", err)
	}
	return string(content), nil
}
