package lint

import (
	"strings"
	"testing"
)

// TestFakeClientsHaveOneSetUp checks that only test/kit/fakeapi creates fake clients of the API
// server, so that all of them support the same types.
func TestFakeClientsHaveOneSetUp(t *testing.T) {
	seen := false
	for _, file := range sources(t) {
		if !strings.Contains(read(t, file), "fake."+"NewClientBuilder(") {
			continue
		}
		if strings.HasPrefix(file, "test/kit/fakeapi/") {
			seen = true
			continue
		}
		t.Errorf("%s creates a fake client: use fakeapi.Builder", file)
	}
	if !seen {
		t.Error("test/kit/fakeapi creates no fake client")
	}
}
