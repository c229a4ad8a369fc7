package crd_test

import (
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"heartwood.dev/heartwood/config/crd"
)

// decimals are the only fields that are decimal numbers. Kubernetes' conventions forbid them,
// because binary floating point changes digits; v1alpha1.Percent keeps the digits.
var decimals = []string{"minDirtyPercent"}

// kafkaEnums are the fields whose values are spelled as in Kafka: names of codecs.
var kafkaEnums = []string{"compression.type", "clean.type"}

// mixedAcronym is a part of a name in which an acronym has both cases.
var mixedAcronym = regexp.MustCompile(`Api|Tls|Url|Http|Acl|Uid|Dns|Json|Ids?([A-Z]|$)`)

// limitSuffix is the end of a name such as lagMax. Kubernetes' own names begin with max and min.
var limitSuffix = regexp.MustCompile(`(Max|Min)$`)

func crds(t *testing.T) (all []*apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	files, err := fs.Glob(crd.Files, "*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("found %d files, error %v", len(files), err)
	}
	for _, file := range files {
		text, err := crd.Files.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(text, definition); err != nil {
			t.Fatal(err)
		}
		all = append(all, definition)
	}
	return all
}

// TestResourcesHaveNamesAndColumns checks that `kubectl get heartwood` shows every kind, that each
// kind has a short name, and that no name of a column contains a space, which would look like two
// columns.
func TestResourcesHaveNamesAndColumns(t *testing.T) {
	for _, definition := range crds(t) {
		names := definition.Spec.Names
		if !slices.Contains(names.Categories, "heartwood") || len(names.ShortNames) == 0 {
			t.Errorf("%s: categories %q, short names %q", names.Kind, names.Categories,
				names.ShortNames)
		}
		for _, version := range definition.Spec.Versions {
			if version.Subresources == nil || version.Subresources.Status == nil {
				t.Errorf("%s %s: no status subresource", names.Kind, version.Name)
			}
			for _, column := range version.AdditionalPrinterColumns {
				if strings.Contains(column.Name, " ") {
					t.Errorf("%s: the name of column %q contains a space", names.Kind, column.Name)
				}
			}
		}
	}
}

// TestFieldsOfResourcesFollowTheConventions checks every field of every resource against the rules
// in docs/api-stability.md#names-and-types.
func TestFieldsOfResourcesFollowTheConventions(t *testing.T) {
	checked := 0
	for _, definition := range crds(t) {
		for _, version := range definition.Spec.Versions {
			properties := version.Schema.OpenAPIV3Schema.Properties
			for _, name := range []string{"spec", "status"} {
				schema := properties[name]
				walkFields(definition.Spec.Names.Kind+"."+name, &schema,
					func(path string, field *apiextensionsv1.JSONSchemaProps) {
						checked++
						for _, problem := range fieldProblems(path, field) {
							t.Errorf("%s: %s", path, problem)
						}
					})
			}
		}
	}
	if checked < 400 {
		t.Errorf("checked %d fields, want at least 400", checked)
	}
}

// walkFields calls visit for a field and for all fields below it, except those of Kubernetes' own
// types: conditions and label selectors. The path of an element of a list ends with [].
func walkFields(path string, field *apiextensionsv1.JSONSchemaProps,
	visit func(string, *apiextensionsv1.JSONSchemaProps)) {
	visit(path, field)
	if strings.HasSuffix(path, "conditions") || strings.HasSuffix(path, "Selector") {
		return
	}
	for name, child := range field.Properties {
		walkFields(path+"."+name, &child, visit)
	}
	if field.Items != nil && field.Items.Schema != nil {
		walkFields(path+"[]", field.Items.Schema, visit)
	}
}

// fieldProblems returns the rules that a field violates.
func fieldProblems(path string, field *apiextensionsv1.JSONSchemaProps) (problems []string) {
	name := path[strings.LastIndexByte(path, '.')+1:]
	element := strings.HasSuffix(name, "[]")
	add := func(violated bool, problem string) {
		if violated {
			problems = append(problems, problem)
		}
	}
	first, _, _ := strings.Cut(field.Description, " ")
	add(!element && !strings.EqualFold(first, name), "the description does not begin with the name")
	add(!element && !strings.HasSuffix(field.Description, "."), "the description is no sentence")
	add(field.Type == "array" && field.XListType == nil, "the list has no list type")
	add(field.Type == "number" && !slices.Contains(decimals, name), "a decimal number")
	add(field.Format == "date-time" && name != "time" && !strings.HasSuffix(name, "Time"),
		"the name of a time must end with Time")
	add(mixedAcronym.MatchString(name), "an acronym in mixed case")
	add(limitSuffix.MatchString(name), "max and min must begin the name")
	add(!spelledAsConstants(path, field), "an enum value does not begin with an upper-case letter")
	return problems
}

// spelledAsConstants reports whether all values of an enum begin with an upper-case letter.
func spelledAsConstants(path string, field *apiextensionsv1.JSONSchemaProps) bool {
	for _, suffix := range kafkaEnums {
		if strings.HasSuffix(path, suffix) {
			return true
		}
	}
	for _, value := range field.Enum {
		text := strings.Trim(string(value.Raw), `"`)
		if text == "" || !unicode.IsUpper(rune(text[0])) {
			return false
		}
	}
	return true
}

// TestViolationsOfConventionsAreFound checks that fieldProblems finds a violation of each rule.
func TestViolationsOfConventionsAreFound(t *testing.T) {
	lower := []apiextensionsv1.JSON{{Raw: []byte(`"tls"`)}}
	for path, field := range map[string]*apiextensionsv1.JSONSchemaProps{
		"spec.a":        {Description: "The field a."},
		"spec.b":        {Description: "B is a field"},
		"spec.c":        {Description: "C is a list.", Type: "array"},
		"spec.d":        {Description: "D is a number.", Type: "number"},
		"spec.expires":  {Description: "Expires is a time.", Format: "date-time"},
		"spec.adminApi": {Description: "AdminAPI is a field."},
		"spec.topicId":  {Description: "TopicID is a field."},
		"spec.lagMax":   {Description: "LagMax is a field."},
		"spec.type":     {Description: "Type is tls.", Enum: lower},
	} {
		if got := fieldProblems(path, field); len(got) != 1 {
			t.Errorf("%s: got %q, want one violation", path, got)
		}
	}
	fine := &apiextensionsv1.JSONSchemaProps{Description: "Type is tls.", Enum: lower}
	if got := fieldProblems("spec.compression.type", fine); len(got) != 0 {
		t.Errorf("Kafka's spelling: got %q", got)
	}
}
