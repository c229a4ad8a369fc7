// Command kstatus reads Kubernetes objects from standard input, as a sequence of JSON documents.
// For each object, it prints a line with the object's kind, name, status according to kstatus, and
// message, separated by tabs.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	decoder := json.NewDecoder(in)
	for {
		var object unstructured.Unstructured
		if err := decoder.Decode(&object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read object: %w", err)
		}
		result, err := status.Compute(&object)
		if err != nil {
			return fmt.Errorf("status of %s %s: %w", object.GetKind(), object.GetName(), err)
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\n", object.GetKind(), object.GetName(), result.Status,
			result.Message)
	}
}
