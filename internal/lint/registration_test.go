package lint

import (
	"os"
	"strings"
	"testing"
)

// registrationAnnotation is the Lease annotation that contains a broker's registration.
const registrationAnnotation = "heartwood.dev/registration"

// TestOnlyRegistrationNamesTheAnnotationOfBrokers checks that only v1alpha1.Registration contains
// the name of the annotation. All other files, including tests in other packages, must access the
// annotation through v1alpha1.Registration.
func TestOnlyRegistrationNamesTheAnnotationOfBrokers(t *testing.T) {
	const owner = "api/v1alpha1/registration"
	found := 0
	for _, file := range sources(t) {
		text, err := os.ReadFile(root + file)
		if err != nil {
			t.Fatal(err)
		}
		switch named := strings.Contains(string(text), `"`+registrationAnnotation); {
		case !named || file == "internal/lint/registration_test.go":
		case file == owner+".go" || file == owner+"_test.go":
			found++
		default:
			t.Errorf("%s names %s: use v1alpha1.Registration", file, registrationAnnotation)
		}
	}
	if found != 2 {
		t.Errorf("%d files of %s name the annotation, want the type and its test", found, owner)
	}
}
