package manifest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"weak"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"sigs.k8s.io/yaml"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/config/crd"
)

// rules contains a kind's compiled validation rules.
type rules struct {
	schema    *structural.Structural
	validator validation.SchemaValidator
	cel       *cel.Validator
}

var (
	topicRules      = cachedRules{file: "heartwood.dev_topics.yaml"}
	logClusterRules = cachedRules{file: "heartwood.dev_logclusters.yaml"}
	logUserRules    = cachedRules{file: "heartwood.dev_logusers.yaml"}
)

// cachedRules compiles a kind's rules on demand, and keeps a weak pointer to the compiled rules.
// Rules are needed only at the start and when manifests change. Compiling them takes about ten
// milliseconds, but compiled rules use more memory than everything else in an idle `heartwood dev`.
type cachedRules struct {
	file string

	mu     sync.Mutex
	cached weak.Pointer[rules]
}

// load returns the cached rules, or compiles them.
func (k *cachedRules) load() (*rules, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if compiled := k.cached.Value(); compiled != nil {
		return compiled, nil
	}
	compiled, err := loadRules(k.file)
	if err != nil {
		return nil, err
	}
	k.cached = weak.Make(compiled)
	return compiled, nil
}

// loadRules compiles a CRD's schema in the same way as the API server before it serves the
// resource.
func loadRules(file string) (*rules, error) {
	text, err := crd.Files.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var definition apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(text, &definition); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	for _, version := range definition.Spec.Versions {
		if version.Name == v1alpha1.GroupVersion.Version {
			return newRules(version.Schema)
		}
	}
	return nil, fmt.Errorf("read %s: no version %s", file, v1alpha1.GroupVersion.Version)
}

// newRules compiles one version's schema. It fails only if the CRD itself is invalid, which is a
// bug.
func newRules(schema *apiextensionsv1.CustomResourceValidation) (*rules, error) {
	var internal apiextensions.CustomResourceValidation
	err := apiextensionsv1.
		Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(
			schema, &internal, nil)
	if err != nil {
		return nil, fmt.Errorf("convert schema: %w", err)
	}
	r := &rules{}
	if r.schema, err = structural.NewStructural(internal.OpenAPIV3Schema); err != nil {
		return nil, fmt.Errorf("convert to structural schema: %w", err)
	}
	// Copy the schema first, because PruneDefaults modifies it, and because it shares defaults with
	// the variable internal.
	r.schema = r.schema.DeepCopy()
	if err := defaulting.PruneDefaults(r.schema); err != nil {
		return nil, fmt.Errorf("prune defaults: %w", err)
	}
	if r.validator, _, err = validation.NewSchemaValidator(internal.OpenAPIV3Schema); err != nil {
		return nil, fmt.Errorf("create schema validator: %w", err)
	}
	r.cel = cel.NewValidator(r.schema, true, celconfig.PerCallLimit)
	return r, nil
}

// create validates and modifies an object in the same way as a create request. It reports and
// removes unknown fields, removes the status, and sets defaults. It sets defaults before it checks
// the schema, because a required field can have a default.
func (r *rules) create(content map[string]any) field.ErrorList {
	faults := r.prune(content)
	meta, found, err := objectmeta.GetObjectMeta(content, false)
	if err != nil {
		return append(faults, field.Invalid(field.NewPath("metadata"), field.OmitValueType{},
			err.Error()))
	}
	if !found {
		meta = &metav1.ObjectMeta{}
	}
	if meta.Namespace == "" {
		meta.Namespace = "default" // as kubectl does
	}
	delete(content, "status")
	if err := objectmeta.SetObjectMeta(content, meta); err != nil {
		return append(faults, field.Invalid(field.NewPath("metadata"), field.OmitValueType{},
			err.Error()))
	}
	defaulting.Default(content, r.schema)

	faults = append(faults, apivalidation.ValidateObjectMeta(meta, true,
		apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))...)
	faults = append(faults, validation.ValidateCustomResource(nil, content, r.validator)...)
	faults = append(faults, listtype.ValidateListSetsAndMaps(nil, r.schema, content)...)
	if blocking(faults) {
		return faults // CEL rules rely on a valid schema
	}
	byRule, _ := r.cel.Validate(context.Background(), nil, r.schema, content, nil,
		celconfig.RuntimeCELCostBudget)
	return append(faults, byRule...)
}

// update validates a changed object in the same way as an update request. Like the API server, it
// ignores some faults in unchanged fields (ratcheting).
func (r *rules) update(old, updated map[string]any) field.ErrorList {
	correlated := common.NewCorrelatedObject(updated, old, &model.Structural{Structural: r.schema})
	faults := validation.ValidateCustomResourceUpdate(nil, updated, old, r.validator,
		validation.WithRatcheting(correlated))
	if blocking(faults) {
		return faults
	}
	byRule, _ := r.cel.Validate(context.Background(), nil, r.schema, updated, old,
		celconfig.RuntimeCELCostBudget,
		cel.WithRatcheting(correlated))
	return append(faults, byRule...)
}

// prune removes unknown fields and returns a fault for each of them. This corresponds to strict
// field validation, which is kubectl's default.
func (r *rules) prune(content map[string]any) field.ErrorList {
	var faults field.ErrorList
	_, _, unknown, err := objectmeta.GetObjectMetaWithOptions(content,
		objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
	if err != nil {
		return faults // create returns err
	}
	unknown = append(unknown, pruning.PruneWithOptions(content, r.schema, true,
		structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})...)
	defaulting.PruneNonNullableNullsWithoutDefaults(content, r.schema)
	for _, path := range unknown {
		faults = append(faults, &field.Error{Type: errorTypeUnknown, Field: path, Detail: path})
	}
	return faults
}

// errorTypeUnknown is the type for faults about unknown fields. In the API server, these faults are
// not field.Errors.
const errorTypeUnknown field.ErrorType = "unknown field"

// messages returns the messages of one object's faults. It sorts them, because validators iterate
// over maps in random order.
func messages(faults field.ErrorList) []string {
	texts := make([]string, 0, len(faults))
	for _, fault := range faults {
		texts = append(texts, message(fault))
	}
	slices.Sort(texts)
	return texts
}

// message returns the API server's message for a fault.
func message(fault *field.Error) string {
	if fault.Type == errorTypeUnknown {
		return fmt.Sprintf("%s: unknown field %q", fault.Field, fault.Detail)
	}
	// Print each fault as one line.
	return strings.ReplaceAll(fault.Error(), "\n", " ")
}

// blocking reports whether the API server skips the CEL rules because of these faults.
func blocking(faults field.ErrorList) bool {
	for _, fault := range faults {
		switch fault.Type {
		case field.ErrorTypeNotSupported,
			field.ErrorTypeRequired,
			field.ErrorTypeTooLong,
			field.ErrorTypeTooMany,
			field.ErrorTypeTypeInvalid:
			return true
		}
	}
	return false
}
