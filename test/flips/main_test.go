//go:build flips

package flips

import (
	"os"
	"testing"

	"heartwood.dev/heartwood/test/kit/process"
)

func TestMain(m *testing.M) {
	os.Exit(process.Main(m))
}
