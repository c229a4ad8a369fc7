package envtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"heartwood.dev/heartwood/test/kit/await"
)

func TestMissingAssetsErrorNamesTheFix(t *testing.T) {
	for _, directory := range []string{"", t.TempDir()} {
		err := checkAssets(directory)
		if err == nil || !strings.Contains(err.Error(), "make test") ||
			!strings.Contains(err.Error(), "hack/kubetools/assets.sh") {
			t.Errorf("%q: %v", directory, err)
		}
	}
}

func TestGuardKillsChildrenOfAKilledTest(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("the guard needs /proc")
	}
	directory := t.TempDir()
	victim := exec.Command(os.Args[0], "-test.run=^TestVictim$")
	victim.Env = append(os.Environ(), victimVariable+"="+directory)
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	child := waitFor(t, "the child wrote its process id", func() (string, bool) {
		content, err := os.ReadFile(filepath.Join(directory, "child"))
		return string(content), err == nil && len(content) > 0
	})
	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = victim.Wait()
	waitFor(t, "the child has exited", func() (string, bool) {
		state, err := os.ReadFile("/proc/" + child + "/stat")
		// The child has exited. It may still exist as a zombie ("Z"), for which no process has waited.
		return "", err != nil || strings.Contains(string(state), ") Z ")
	})
}

// victimVariable names the directory to which TestVictim writes the process id of its child.
const victimVariable = "HEARTWOOD_ENVTEST_VICTIM"

// TestVictim runs in the process that TestGuardKillsChildrenOfAKilledTest starts and kills. Without
// the guard, its child process would outlive it.
func TestVictim(t *testing.T) {
	directory := os.Getenv(victimVariable)
	if directory == "" {
		return // this process was not started by the other test
	}
	child := exec.Command("sleep", "600")
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // like the processes that envtest starts
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if err := guard(t); err != nil {
		t.Fatal(err)
	}
	id := childProcesses()[0]
	if err := os.WriteFile(filepath.Join(directory, "child.part"), []byte(id), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(directory, "child.part"),
		filepath.Join(directory, "child")); err != nil {
		t.Fatal(err)
	}
	select {} // blocks until the process is killed
}

func waitFor(t *testing.T, what string, found func() (string, bool)) (value string) {
	t.Helper()
	await.Until(t, what, func() (ok bool) {
		value, ok = found()
		return ok
	})
	return value
}
