// Command chartcheck checks rendered manifests that it reads from standard input. They must contain
// no unknown or duplicate fields, and exactly the expected kinds. Pods must satisfy the restricted
// profile of the Pod Security Standards. CRDs must equal the CRDs that are generated from the code.
// It exists because no schema checker has the last three rules.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

func main() {
	crds := flag.String("crds", "config/crd", "`DIRECTORY` of the generated CRDs")
	kinds := flag.String("kinds", "", "comma-separated `KINDS` that must be present, and no others")
	flag.Parse()
	if err := run(os.Stdin, *crds, strings.Split(*kinds, ",")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(in io.Reader, crdsDirectory string, kinds []string) error {
	generated, err := readCRDs(crdsDirectory)
	if err != nil {
		return err
	}
	objects, err := decode(in)
	if err != nil {
		return err
	}
	if err := check(objects, generated); err != nil {
		return err
	}
	found := map[string]bool{}
	for _, object := range objects {
		found[object.GetObjectKind().GroupVersionKind().Kind] = true
	}
	for _, kind := range kinds {
		if !found[kind] {
			return fmt.Errorf("check kinds: no %s among the %d objects", kind, len(objects))
		}
		delete(found, kind)
	}
	for kind := range found {
		return fmt.Errorf("check kinds: unexpected %s; want only %v", kind,
			slices.Sorted(slices.Values(kinds)))
	}
	fmt.Printf("%d objects checked\n", len(objects))
	return nil
}
