// Command chartcheck reads rendered manifests from stdin and checks them object by object: no
// unknown or doubled fields, pods that keep to the restricted profile, CRDs equal to the ones the
// code makes, and the kinds that are expected, no others.
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
	crds := flag.String("crds", "config/crd", "folder of the CRDs that the code makes")
	kinds := flag.String("kinds", "", "kinds that are expected, joined by commas")
	flag.Parse()
	if err := run(os.Stdin, *crds, strings.Split(*kinds, ",")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(in io.Reader, crdsFolder string, kinds []string) error {
	made, err := readCRDs(crdsFolder)
	if err != nil {
		return err
	}
	objects, err := decode(in)
	if err != nil {
		return err
	}
	if err := check(objects, made); err != nil {
		return err
	}
	found := map[string]bool{}
	for _, object := range objects {
		found[object.GetObjectKind().GroupVersionKind().Kind] = true
	}
	for _, kind := range kinds {
		if !found[kind] {
			return fmt.Errorf("no %s among the %d objects", kind, len(objects))
		}
		delete(found, kind)
	}
	for kind := range found {
		return fmt.Errorf("unexpected %s; expected are %v", kind,
			slices.Sorted(slices.Values(kinds)))
	}
	fmt.Printf("%d objects are right\n", len(objects))
	return nil
}
