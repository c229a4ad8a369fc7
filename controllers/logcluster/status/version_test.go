package status

import "testing"

func TestIsOlderComparesNumbers(t *testing.T) {
	for _, test := range []struct {
		version, than string
		older         bool
	}{
		{"9", "", false}, {"9", "10", true}, {"10", "9", false}, {"10", "10", false}, {"x", "10", false},
	} {
		if got := isOlder(test.version, test.than); got != test.older {
			t.Errorf("isOlder(%q, %q) = %v", test.version, test.than, got)
		}
	}
}
