package envtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestMissingAssetsSayHowToGetThem(t *testing.T) {
	for _, folder := range []string{"", t.TempDir()} {
		err := checkAssets(folder)
		if err == nil || !strings.Contains(err.Error(), "make test") ||
			!strings.Contains(err.Error(), "hack/kubetools/assets.sh") {
			t.Errorf("%q: %v", folder, err)
		}
	}
}

func TestNothingStaysWhenTheTestIsKilled(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("the guard knows children by /proc")
	}
	folder := t.TempDir()
	victim := exec.Command(os.Args[0], "-test.run=^TestVictim$")
	victim.Env = append(os.Environ(), victimVariable+"="+folder)
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	child := waitFor(t, func() (string, bool) {
		content, err := os.ReadFile(filepath.Join(folder, "child"))
		return string(content), err == nil && len(content) > 0
	})
	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = victim.Wait()
	waitFor(t, func() (string, bool) {
		state, err := os.ReadFile("/proc/" + child + "/stat")
		// gone, or dead and not yet collected
		return "", err != nil || strings.Contains(string(state), ") Z ")
	})
}

// victimVariable names the folder where a victim writes whom it started.
const victimVariable = "HEARTWOOD_ENVTEST_VICTIM"

// TestVictim is what TestNothingStaysWhenTheTestIsKilled kills: a test with a child that would
// outlive it.
func TestVictim(t *testing.T) {
	folder := os.Getenv(victimVariable)
	if folder == "" {
		return // it is nobody's victim
	}
	child := exec.Command("sleep", "600")
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // as envtest starts its processes
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if err := guard(t); err != nil {
		t.Fatal(err)
	}
	number := childProcesses()[0]
	if err := os.WriteFile(filepath.Join(folder, "child.part"), []byte(number), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(folder, "child.part"),
		filepath.Join(folder, "child")); err != nil {
		t.Fatal(err)
	}
	select {} // until it is killed
}

func waitFor(t *testing.T, found func() (string, bool)) string {
	t.Helper()
	deadline := time.Now().Add(3 * time.Minute)
	for time.Now().Before(deadline) {
		if value, ok := found(); ok {
			return value
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatal("waited in vain")
	return ""
}
