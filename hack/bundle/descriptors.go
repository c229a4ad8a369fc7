package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// descriptor describes a field for the forms and pages of consoles.
type descriptor struct {
	Path        string   `json:"path"`
	DisplayName string   `json:"displayName"`
	Description string   `json:"description,omitempty"`
	Descriptors []string `json:"x-descriptors,omitempty"`
}

// resource is a kind of objects that the operator creates for a resource. Consoles show them with
// the resource, and the validator takes the version from here for the permissions of a kind, which
// have no version (findings/olm-warns-for-a-served-api.sh).
type resource struct {
	Kind    string `json:"kind"`
	Version string `json:"version"` // with the group, as in apiVersion
}

// resources contains the created kinds by the kind of the resource.
var resources = map[string][]resource{
	"LogCluster": {{"StatefulSet", "apps/v1"}, {"Service", "v1"}, {"ServiceAccount", "v1"},
		{"PodDisruptionBudget", "policy/v1"}, {"EndpointSlice", "discovery.k8s.io/v1"},
		{"NetworkPolicy", "networking.k8s.io/v1"}, {"Secret", "v1"},
		{"Event", "events.k8s.io/v1"}},
	"LogUser": {{"Secret", "v1"}},
	"Topic":   {{"PartitionSet", "heartwood.dev/v1alpha1"}},
}

// owned describes the CRDs, with the fields at the top of their spec and status.
func (s *source) owned() (all []any, err error) {
	for _, found := range s.only("CustomResourceDefinition") {
		var crd v1.CustomResourceDefinition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object,
			&crd); err != nil {
			return nil, fmt.Errorf("read CRD %s: %w", found.GetName(), err)
		}
		for i := range crd.Spec.Versions {
			version := &crd.Spec.Versions[i]
			schema := version.Schema.OpenAPIV3Schema
			all = append(all, map[string]any{"name": crd.Name, "version": version.Name,
				"kind": crd.Spec.Names.Kind, "displayName": crd.Spec.Names.Kind,
				"description":       oneLine(schema.Description),
				"specDescriptors":   descriptors(schema.Properties["spec"], specDescriptors),
				"statusDescriptors": descriptors(schema.Properties["status"], statusDescriptors),
				"resources":         resources[crd.Spec.Names.Kind]})
		}
	}
	return all, nil
}

// descriptors returns the descriptors of a schema's fields, in the order of their names.
func descriptors(schema v1.JSONSchemaProps,
	widgets func(name string, field v1.JSONSchemaProps) []string) (all []descriptor) {
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		field := schema.Properties[name]
		all = append(all, descriptor{Path: name, DisplayName: words(name),
			Description: oneLine(field.Description), Descriptors: widgets(name, field)})
	}
	return all
}

const console = "urn:alm:descriptor:com.tectonic.ui:"

// specDescriptors returns the widgets in which users enter a field.
func specDescriptors(name string, field v1.JSONSchemaProps) (all []string) {
	switch {
	case len(field.Enum) > 0:
		for _, value := range field.Enum {
			all = append(all, console+"select:"+strings.Trim(string(value.Raw), `"`))
		}
		return all
	case name == "resources":
		return []string{console + "resourceRequirements"}
	case field.Type == "boolean":
		return []string{console + "booleanSwitch"}
	case field.Type == "integer":
		return []string{console + "number"}
	case field.Type == "string":
		return []string{console + "text"}
	}
	return nil
}

// statusDescriptors returns how a console shows a field.
func statusDescriptors(name string, field v1.JSONSchemaProps) []string {
	switch {
	case name == "conditions":
		return []string{"urn:alm:descriptor:io.kubernetes.conditions"}
	case field.Type == "object" || field.Type == "array":
		return nil
	}
	return []string{console + "text"}
}

// words returns the words of a field's name, such as "Reclaim Policy".
func words(name string) string {
	var out strings.Builder
	for i, letter := range name {
		switch {
		case i == 0:
			letter = unicode.ToUpper(letter)
		case unicode.IsUpper(letter):
			out.WriteByte(' ')
		}
		out.WriteRune(letter)
	}
	return out.String()
}

// oneLine returns the first paragraph of a description without line breaks.
func oneLine(text string) string {
	first, _, _ := strings.Cut(text, "\n\n")
	return strings.Join(strings.Fields(first), " ")
}
