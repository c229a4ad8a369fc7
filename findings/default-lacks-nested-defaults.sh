#!/usr/bin/env bash
# A CustomResourceDefinition may give an object a default, and fields of the object defaults of their
# own. One would guess that the default {} is as good as {} in a manifest: the API server fills in
# the fields and then validates. It does so for the manifest only. The default of the object is
# validated as it stands: a required field that has a default must be repeated in it, or the
# CustomResourceDefinition is rejected.
#
# Versions: k8s.io/apiextensions-apiserver v0.37.2
# Source: documentation of CustomResourceDefinitions, section Defaulting, which states that defaults
#   are validated, and not that they are validated without the defaults inside of them
# Product: the default of status repeats its required fields (api/v1alpha1).
. "$(dirname "$0")/lib.bash"

cat > "$work/main.go" <<'GO'
package main

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	valuevalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func raw(value string) *v1.JSON { return &v1.JSON{Raw: []byte(value)} }

// definition has an object "store" with the required field "mode", whose default is "a".
func definition(scheme *runtime.Scheme, storeDefault string) *apiextensions.CustomResourceDefinition {
	store := v1.JSONSchemaProps{Type: "object", Required: []string{"mode"},
		Properties: map[string]v1.JSONSchemaProps{"mode": {Type: "string", Default: raw(`"a"`)}}}
	if storeDefault != "" {
		store.Default = raw(storeDefault)
	}
	crd := &v1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "things.example.com"},
		Spec: v1.CustomResourceDefinitionSpec{Group: "example.com", Scope: v1.NamespaceScoped,
			Names: v1.CustomResourceDefinitionNames{Plural: "things", Singular: "thing",
				Kind: "Thing", ListKind: "ThingList"},
			Versions: []v1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true,
				Schema: &v1.CustomResourceValidation{OpenAPIV3Schema: &v1.JSONSchemaProps{
					Type: "object", Properties: map[string]v1.JSONSchemaProps{"store": store}}}}}},
		Status: v1.CustomResourceDefinitionStatus{StoredVersions: []string{"v1"}}}
	v1.SetDefaults_CustomResourceDefinition(crd)
	v1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
	out := &apiextensions.CustomResourceDefinition{}
	if err := scheme.Convert(crd, out, nil); err != nil {
		panic(err)
	}
	return out
}

func main() {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	for _, value := range []string{`{}`, `{"mode":"a"}`} {
		errs := validation.ValidateCustomResourceDefinition(context.Background(),
			definition(scheme, value))
		fmt.Println("default", value, errs.ToAggregate())
	}
	// the same {} in a manifest
	crd := definition(scheme, "")
	properties := crd.Spec.Validation.OpenAPIV3Schema
	structural, err := schema.NewStructural(properties)
	if err != nil {
		panic(err)
	}
	validator, _, err := valuevalidation.NewSchemaValidator(properties)
	if err != nil {
		panic(err)
	}
	object := map[string]any{"store": map[string]any{}}
	defaulting.Default(object, structural)
	errs := valuevalidation.ValidateCustomResource(nil, object, validator)
	text, _ := json.Marshal(object)
	fmt.Println("manifest", string(text), errs.ToAggregate())
}
GO
cd "$work"
go mod init finding 2> go.log
go get k8s.io/apiextensions-apiserver@v0.37.2 2>> go.log
go mod tidy 2>> go.log
output=$(go run .)
same "default {}" "$(sed -n 1p <<<"$output")" \
  "default {} spec.validation.openAPIV3Schema.properties[store].default.mode: Required value"
same "default with the field" "$(sed -n 2p <<<"$output")" 'default {"mode":"a"} <nil>'
same "{} in a manifest" "$(sed -n 3p <<<"$output")" 'manifest {"store":{"mode":"a"}} <nil>'
