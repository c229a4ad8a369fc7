// Command olm validates OLM bundles (registry+v1) with the validators of Operator Framework, those
// that operator-sdk bundle validate uses. Each argument is the directory of a bundle. It prints a
// line for each finding, and fails if one of them is an error.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/validation"
)

func main() {
	failed := false
	for _, dir := range os.Args[1:] {
		ok, err := validate(dir)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		failed = failed || err != nil || !ok
	}
	if failed || len(os.Args) < 2 {
		os.Exit(1)
	}
}

// validate prints the findings on a bundle, and reports whether it has no errors.
func validate(dir string) (ok bool, err error) {
	bundle, err := manifests.GetBundleFromDir(dir)
	if err != nil {
		return false, fmt.Errorf("read bundle %s: %w", dir, err)
	}
	// Not all validators: MultipleArchitecturesValidator pulls the operator's image with a container
	// engine, CommunityOperatorValidator is deprecated, and AlphaDeprecatedAPIsValidator is part of
	// OperatorHubV2Validator.
	validators := append(validation.DefaultBundleValidators, validation.OperatorHubV2Validator,
		validation.StandardCategoriesValidator, validation.StandardCapabilitiesValidator,
		validation.ObjectValidator, validation.GoodPracticesValidator)
	ok = true
	for _, result := range validators.Validate(bundle.ObjectsToValidate()...) {
		for _, finding := range append(result.Errors, result.Warnings...) {
			fmt.Println(strings.TrimSpace(finding.Error()))
		}
		ok = ok && !result.HasError()
	}
	return ok, nil
}
