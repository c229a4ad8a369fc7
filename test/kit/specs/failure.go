package specs

import (
	"fmt"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

// failure is the panic value with which a failed assertion ends its spec.
type failure struct {
	message string
	names   []string // lines of test files on the stack, innermost first
}

// Fail is the fail handler for Gomega: it ends the spec whose goroutine calls it.
func Fail(message string, _ ...int) {
	f := failure{message: message}
	callers := make([]uintptr, 64)
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers)])
	for frame, more := frames.Next(); more; frame, more = frames.Next() {
		if strings.HasSuffix(frame.File, "_test.go") {
			f.names = append(f.names, fmt.Sprintf("%s:%d", filepath.Base(frame.File), frame.Line))
		}
	}
	panic(f)
}

// Cleanup registers a function that runs at the end of the spec. The function can contain
// assertions.
func Cleanup(t *testing.T, body func()) {
	t.Cleanup(func() { Guard(t, body) })
}

// Guard calls body. It fails the test if an assertion in body fails or body panics.
func Guard(t *testing.T, body func()) {
	t.Helper()
	defer func() {
		t.Helper()
		switch cause := recover().(type) {
		case nil:
		case failure:
			t.Errorf("%s\n%s", strings.Join(cause.names, ", called at "), cause.message)
		default:
			t.Errorf("panic: %v\n%s", cause, debug.Stack())
		}
	}()
	body()
}
