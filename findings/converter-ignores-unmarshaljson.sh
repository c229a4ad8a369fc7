#!/usr/bin/env bash
# The fields of a Kubernetes object may have types with their own UnmarshalJSON. apimachinery's
# converter of unstructured objects, which caches and dynamic clients use, calls it for a struct,
# but not for a type whose kind is string: the same object that encoding/json reads is refused. The
# other direction is not symmetric: ToUnstructured calls MarshalJSON of both, so an object that the
# converter has written cannot be read back by it.
#
# Versions: k8s.io/apimachinery v0.37.2
# Source: documentation of runtime.DefaultUnstructuredConverter, which names no such limit
# Product: v1alpha1.Percent is a struct (ADR 0311).
. "$(dirname "$0")/lib.bash"

cat > "$work/main.go" <<'GO'
package main

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
)

// Text is a JSON number that keeps its digits.
type Text string

func (t Text) MarshalJSON() ([]byte, error) { return []byte(t), nil }
func (t *Text) UnmarshalJSON(b []byte) error { *t = Text(b); return nil }

// Struct is the same as a struct.
type Struct struct{ Digits string }

func (s Struct) MarshalJSON() ([]byte, error) { return []byte(s.Digits), nil }
func (s *Struct) UnmarshalJSON(b []byte) error { s.Digits = string(b); return nil }

type withText struct {
	Ratio Text `json:"ratio"`
}
type withStruct struct {
	Ratio Struct `json:"ratio"`
}

func main() {
	converter := runtime.DefaultUnstructuredConverter
	var text, again withText
	var structure withStruct
	fmt.Println("encoding/json:", json.Unmarshal([]byte(`{"ratio": 12}`), &text) == nil, text.Ratio)
	object := map[string]any{"ratio": int64(12)}
	fmt.Println("string:", converter.FromUnstructured(object, &again) == nil)
	err := converter.FromUnstructured(object, &structure)
	fmt.Println("struct:", err == nil, structure.Ratio.Digits)
	written, err := converter.ToUnstructured(&text)
	fmt.Println("string, written:", err == nil, written)
}
GO
cd "$work"
go mod init finding 2> go.log
go get k8s.io/apimachinery@v0.37.2 2>> go.log
go mod tidy 2>> go.log
output=$(go run .)
same "encoding/json reads the string type" "$(sed -n 1p <<<"$output")" "encoding/json: true 12"
same "the converter reads the string type" "$(sed -n 2p <<<"$output")" "string: false"
same "the converter reads the struct" "$(sed -n 3p <<<"$output")" "struct: true 12"
same "the converter writes the string type" "$(sed -n 4p <<<"$output")" \
  "string, written: true map[ratio:12]"
