package specs

import (
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"heartwood.dev/heartwood/test/kit/await"
)

// ran is the number of specs that have run. running is the number of specs that are running.
var ran, running atomic.Int32

// meeting is a channel at which two specs wait for each other.
var meeting = make(chan struct{})

var _ = Describe("A container", func() {
	var prepared int // separate variable for each spec
	BeforeEach(func(*testing.T) { prepared++ })
	BeforeEach(func(*testing.T) { prepared *= 10 })
	count := func() {
		running.Add(1)
		defer running.Add(-1)
		ran.Add(1)
		Expect(prepared).To(Equal(10), "each spec has variables of its own")
	}

	It("runs specs at the same time", func(*testing.T) { count(); meeting <- struct{}{} })
	It("runs them with others", func(*testing.T) { count(); <-meeting })
	ItAlone("runs a spec alone", func(*testing.T) {
		count()
		Expect(running.Load()).To(BeZero())
		Expect(ran.Load()).To(Equal(int32(5)), "after the others")
	})
	DescribeTable("runs its entries", func(a, b int) {
		count()
		Expect(a + b).To(Equal(3))
	}, Entry("first", 1, 2), Entry("second/third", 2, 1))
})

// failing is the environment variable with which the failing specs are run.
const failing = "HEARTWOOD_FAILING_SPECS"

var _ = Describe("Failures", func() {
	if os.Getenv(failing) == "" {
		return
	}
	It("end their spec", func(t *testing.T) {
		Cleanup(t, func() { Expect("cleanup").To(Equal("reached")) })
		Expect(1).To(Equal(2))
		t.Log("the spec continues")
	})
	It("may be of an asynchronous assertion", func(*testing.T) {
		Eventually(func(g Gomega) { g.Expect(3).To(Equal(4)) }).
			WithTimeout(time.Millisecond).Should(Succeed())
	})
	It("may be panics", func(*testing.T) { panic("the spec panics") })
	It("do not end other specs", func(t *testing.T) { t.Log("another spec runs") })
})

func TestSpecs(t *testing.T) {
	ran.Store(0)
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(await.Limit)
	Run(t)
	if got := ran.Load(); got != 5 {
		t.Errorf("%d specs ran, want 5", got)
	}
}

func TestFailuresAreReported(t *testing.T) {
	command := exec.Command(os.Args[0], "-test.run=^TestSpecs$/^Failures", "-test.v")
	command.Env = append(os.Environ(), failing+"=1")
	out, err := command.CombinedOutput()
	if err == nil {
		t.Error("the command passed")
	}
	for _, want := range []string{
		"--- FAIL: TestSpecs/Failures_end_their_spec", "<int>: 2", "<string>: reached",
		"--- FAIL: TestSpecs/Failures_may_be_of_an_asynchronous_assertion", "<int>: 4",
		"--- FAIL: TestSpecs/Failures_may_be_panics", "panic: the spec panics",
		"--- PASS: TestSpecs/Failures_do_not_end_other_specs", "another spec runs",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the output lacks %q", want)
		}
	}
	if strings.Count(string(out), "specs_test.go:") < 5 {
		t.Error("the output lacks the lines of the failures")
	}
	if strings.Contains(string(out), "the spec continues") {
		t.Error("a spec continues after a failure")
	}
	if t.Failed() {
		t.Logf("%s", out)
	}
}
