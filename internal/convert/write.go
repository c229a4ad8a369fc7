package convert

import (
	"fmt"
	"io"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// Write writes the documents as YAML. The remarks of a document are comments before its object.
func Write(out io.Writer, documents []Document) error {
	separator := ""
	for _, document := range documents {
		if document.Object == nil && len(document.Remarks) == 0 {
			continue
		}
		text := separator + comments(document.Remarks)
		if document.Object != nil {
			content, err := unstructured(document.Object)
			if err != nil {
				return err
			}
			object, err := yaml.Marshal(content)
			if err != nil {
				return err
			}
			text += string(object)
		}
		if _, err := io.WriteString(out, text); err != nil {
			return err
		}
		separator = "---\n"
	}
	return nil
}

func comments(remarks []Remark) string {
	var text strings.Builder
	for _, remark := range remarks {
		label := "Not converted"
		if !remark.Lost {
			label = "Not needed"
		}
		for line := range strings.SplitSeq(fmt.Sprintf("%s: %s", label, remark), "\n") {
			fmt.Fprintf(&text, "# %s\n", line)
		}
	}
	return text.String()
}

// unstructured returns an object without its status.
func unstructured(object metav1.Object) (map[string]any, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("convert %s: %w", object.GetName(), err)
	}
	delete(content, "status")
	if meta, ok := content["metadata"].(map[string]any); ok {
		delete(meta, "creationTimestamp")
	}
	return content, nil
}
