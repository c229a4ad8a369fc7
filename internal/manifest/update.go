package manifest

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// CheckUpdate validates an update of a Topic as the API server does, including the rules that
// compare the old and the new object. The error joins all faults, each of which is an *Error.
func CheckUpdate(old, updated *v1alpha1.Topic) error {
	r, err := topicRules.load()
	if err != nil {
		return fmt.Errorf("load validation rules: %w", err)
	}
	before, err := content(old)
	if err != nil {
		return err
	}
	after, err := content(updated)
	if err != nil {
		return err
	}
	var faults []error
	for _, text := range messages(r.update(before, after)) {
		faults = append(faults, &Error{Resource: "Topic/" + updated.Name, Message: text})
	}
	return errors.Join(faults...)
}

// content returns a topic in the form of a manifest, without the fields that the API server sets.
func content(topic *v1alpha1.Topic) (map[string]any, error) {
	all, err := runtime.DefaultUnstructuredConverter.ToUnstructured(topic)
	if err != nil {
		return nil, fmt.Errorf("convert topic %s: %w", topic.Name, err)
	}
	return map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "Topic",
		"metadata": map[string]any{"name": topic.Name}, "spec": all["spec"],
	}, nil
}
