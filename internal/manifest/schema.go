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

// rules are a kind's: its CRD, ready to check with.
type rules struct {
	schema    *structural.Structural
	validator validation.SchemaValidator
	cel       *cel.Validator
}

var (
	topicRules      = keptRules{file: "heartwood.dev_topics.yaml"}
	logClusterRules = keptRules{file: "heartwood.dev_logclusters.yaml"}
)

// keptRules are a kind's rules, made when they are needed and kept as long as the memory is not.
// Compiling CEL costs some ten milliseconds, and what comes of it takes more memory than all else
// that an idle `heartwood dev` holds; manifests are read at the start, and when they change.
type keptRules struct {
	file string

	mu   sync.Mutex
	made weak.Pointer[rules]
}

// load returns the rules, or makes them.
func (k *keptRules) load() (*rules, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if made := k.made.Value(); made != nil {
		return made, nil
	}
	made, err := loadRules(k.file)
	if err != nil {
		return nil, err
	}
	k.made = weak.Make(made)
	return made, nil
}

// loadRules does with a CRD what the API server does when it begins to serve it.
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
	return nil, fmt.Errorf("read %s: it has no version %s", file, v1alpha1.GroupVersion.Version)
}

// newRules makes the checks of one version's schema. It fails only if the CRD itself is wrong,
// which is a bug of ours.
func newRules(schema *apiextensionsv1.CustomResourceValidation) (*rules, error) {
	var internal apiextensions.CustomResourceValidation
	err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(
		schema,
		&internal,
		nil,
	)
	if err != nil {
		return nil, fmt.Errorf("convert schema: %w", err)
	}
	r := &rules{}
	if r.schema, err = structural.NewStructural(internal.OpenAPIV3Schema); err != nil {
		return nil, fmt.Errorf("make schema structural: %w", err)
	}
	// PruneDefaults writes into it, and it shares defaults with its source
	r.schema = r.schema.DeepCopy()
	if err := defaulting.PruneDefaults(r.schema); err != nil {
		return nil, fmt.Errorf("prune defaults: %w", err)
	}
	if r.validator, _, err = validation.NewSchemaValidator(internal.OpenAPIV3Schema); err != nil {
		return nil, fmt.Errorf("make validator: %w", err)
	}
	r.cel = cel.NewValidator(r.schema, true, celconfig.PerCallLimit)
	return r, nil
}

// create checks an object as a create request would be checked, and changes it likewise: what is
// unknown goes, defaults come, the status goes. Unknown fields must be told before they are pruned,
// and defaults must be there before the schema is checked, or a required field with a default would
// be missed.
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
		meta.Namespace = "default" // as kubectl fills it in
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
		return faults // CEL rules assume what the schema says
	}
	byRule, _ := r.cel.Validate(context.Background(), nil, r.schema, content, nil,
		celconfig.RuntimeCELCostBudget)
	return append(faults, byRule...)
}

// update checks what an object has become, as an update request would be checked. Faults in what
// did not change are not told, if the API server would let them pass (ratcheting).
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

// prune removes unknown fields and tells them, in the words of strict decoding (what kubectl asks
// for unless told otherwise).
func (r *rules) prune(content map[string]any) field.ErrorList {
	var faults field.ErrorList
	_, _, unknown, err := objectmeta.GetObjectMetaWithOptions(content,
		objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
	if err != nil {
		return faults // told by create
	}
	unknown = append(unknown, pruning.PruneWithOptions(content, r.schema, true,
		structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})...)
	defaulting.PruneNonNullableNullsWithoutDefaults(content, r.schema)
	for _, path := range unknown {
		faults = append(faults, &field.Error{Type: errorTypeUnknown, Field: path, Detail: path})
	}
	return faults
}

// errorTypeUnknown marks the faults of strict decoding, which are no field.Errors in the API
// server.
const errorTypeUnknown field.ErrorType = "unknown field"

// messages are the faults of one object, sorted: the validators walk through maps, in any order.
func messages(faults field.ErrorList) []string {
	texts := make([]string, 0, len(faults))
	for _, fault := range faults {
		texts = append(texts, message(fault))
	}
	slices.Sort(texts)
	return texts
}

// message is a fault in the API server's words.
func message(fault *field.Error) string {
	if fault.Type == errorTypeUnknown {
		return fmt.Sprintf("%s: unknown field %q", fault.Field, fault.Detail)
	}
	// Messages may have lines; ours stand one to a line.
	return strings.ReplaceAll(fault.Error(), "\n", " ")
}

// blocking tells whether the API server would not even look at the CEL rules.
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
