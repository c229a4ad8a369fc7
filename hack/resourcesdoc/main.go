// Command resourcesdoc generates docs/use/resources.md from the CRDs in config/crd. Unlike the tool
// crd-ref-docs, it includes the messages of CEL rules.
package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

func main() {
	if err := run(os.Stdout, "config/crd"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

const intro = `# Resources

Generated from the CRDs by ` + "`make generate`" + `; do not edit. The API server checks a **rule** when a
manifest is applied; its text is the error message. Settings that a Topic shares with
` + "`LogCluster.spec.topicDefaults`" + ` have no default in the schema: a setting that neither specifies has
the default that its description states.
`

// kinds are the resources in the order of their sections on the page.
var kinds = []string{"logclusters", "topics", "logusers", "partitionsets"}

func run(out io.Writer, dir string) error {
	if _, err := io.WriteString(out, intro); err != nil {
		return err
	}
	for _, kind := range kinds {
		content, err := os.ReadFile(dir + "/heartwood.dev_" + kind + ".yaml")
		if err != nil {
			return err
		}
		var crd apiextensions.CustomResourceDefinition
		if err := yaml.Unmarshal(content, &crd); err != nil {
			return fmt.Errorf("read CRD %s: %w", kind, err)
		}
		schema := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
		if _, err := io.WriteString(out, section(crd.Spec.Names.Kind, schema)); err != nil {
			return err
		}
	}
	return nil
}

func section(kind string, schema *apiextensions.JSONSchemaProps) string {
	var text strings.Builder
	fmt.Fprintf(&text, "\n## %s\n\n%s\n", kind, oneLine(schema.Description))
	writeRules(&text, "", schema)
	for _, part := range []string{"spec", "status"} {
		text.WriteString(
			"\n| field | type | default | allowed | description |\n|---|---|---|---|---|\n",
		)
		properties := schema.Properties[part]
		writeFields(&text, part, &properties)
	}
	return text.String()
}

func writeRules(text *strings.Builder, path string, schema *apiextensions.JSONSchemaProps) {
	for _, rule := range schema.XValidations {
		fmt.Fprintf(text, "\n- rule%s: %s", path, oneLine(rule.Message))
	}
	if len(schema.XValidations) > 0 {
		text.WriteString("\n")
	}
}

func writeFields(text *strings.Builder, path string, schema *apiextensions.JSONSchemaProps) {
	names := make([]string, 0, len(schema.Properties))
	for name := range schema.Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		field := schema.Properties[name]
		full := path + "." + name
		description := []string{oneLine(field.Description)}
		for _, rule := range field.XValidations {
			description = append(description, "**Rule:** "+oneLine(rule.Message)+".")
		}
		defaultValue := ""
		if field.Default != nil {
			defaultValue = "`" + string(field.Default.Raw) + "`"
		}
		if slices.Contains(schema.Required, name) {
			defaultValue = "required"
		}
		fmt.Fprintf(text, "| `%s` | %s | %s | %s | %s |\n", full, typeOf(&field), defaultValue,
			allowed(&field),
			strings.Join(description, " "))
		if name == "conditions" {
			continue // Kubernetes documents metav1.Condition
		}
		if field.Items != nil && field.Items.Schema != nil {
			writeFields(text, full+"[]", field.Items.Schema)
		}
		writeFields(text, full, &field)
	}
}

func typeOf(field *apiextensions.JSONSchemaProps) string {
	switch {
	case field.XIntOrString:
		return "quantity"
	case field.Type == "array" && field.Items != nil && field.Items.Schema != nil:
		return "list of " + typeOf(field.Items.Schema)
	case field.Format != "" && field.Type == "string":
		return field.Format
	}
	return field.Type
}

// allowed returns a field's allowed values: the values of its enum, or its range.
func allowed(field *apiextensions.JSONSchemaProps) string {
	values := make([]string, 0, len(field.Enum))
	for _, value := range field.Enum {
		values = append(values, strings.Trim(string(value.Raw), `"`))
	}
	if len(values) > 0 {
		return strings.Join(values, ", ")
	}
	if field.Minimum == nil && field.Maximum == nil {
		return ""
	}
	lowest, highest := "", ""
	if field.Minimum != nil {
		lowest = fmt.Sprintf("%.0f", *field.Minimum)
	}
	if field.Maximum != nil {
		highest = fmt.Sprintf("%.0f", *field.Maximum)
	}
	return lowest + ".." + highest
}

// oneLine joins the lines of a text and escapes |. The result fits in a table cell.
func oneLine(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", "\\|")
}
