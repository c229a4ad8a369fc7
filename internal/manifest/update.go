package manifest

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// CheckUpdate validates an update of a Topic in the same way as the API server, including the rules
// that compare the old and the new object. The error joins all faults; each fault is an *Error.
func CheckUpdate(old, updated *v1alpha1.Topic) error {
	r, err := topicRules.load()
	if err != nil {
		return fmt.Errorf("load validation rules: %w", err)
	}
	before, err := content("Topic", old.Name, old)
	if err != nil {
		return err
	}
	after, err := content("Topic", updated.Name, updated)
	if err != nil {
		return err
	}
	var faults []error
	for _, text := range messages(r.update(before, after)) {
		faults = append(faults, &Error{Resource: "Topic/" + updated.Name, Message: text})
	}
	return errors.Join(faults...)
}

// CheckCluster validates a LogCluster that no manifest contains, in the same way as the API server.
// The error joins all faults; each fault is an *Error.
func CheckCluster(cluster *v1alpha1.LogCluster) error {
	r, err := logClusterRules.load()
	if err != nil {
		return fmt.Errorf("load validation rules: %w", err)
	}
	object, err := content("LogCluster", cluster.Name, cluster)
	if err != nil {
		return err
	}
	var faults []error
	for _, text := range messages(r.create(object)) {
		faults = append(faults, &Error{Resource: "LogCluster/" + cluster.Name, Message: text})
	}
	return errors.Join(faults...)
}

// content returns a resource in the format of a manifest, without the fields that the API server
// sets.
func content(kind, name string, resource any) (map[string]any, error) {
	all, err := runtime.DefaultUnstructuredConverter.ToUnstructured(resource)
	if err != nil {
		return nil, fmt.Errorf("convert %s %s: %w", kind, name, err)
	}
	return map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": kind,
		"metadata": map[string]any{"name": name}, "spec": all["spec"],
	}, nil
}
