package main

import (
	"bytes"
	"os"
	"testing"
)

func TestResourcesPageIsFresh(t *testing.T) {
	var made bytes.Buffer
	if err := run(&made, "../../config/crd"); err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile("../../docs/resources.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(made.Bytes(), kept) {
		t.Error("docs/resources.md is stale: run `make generate`")
	}
}
