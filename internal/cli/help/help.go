package help

import (
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Columns is the maximum width of help texts.
const Columns = 100

// template is the name under which the usage templates of cobra call flagUsages.
const template = "flagUsages"

// register adds flagUsages to cobra's global list of template functions, once.
var register = sync.OnceFunc(func() { cobra.AddTemplateFunc(template, flagUsages) })

// Install changes how the help of the command and its subcommands describes flags.
func Install(root *cobra.Command) {
	register()
	text := root.UsageTemplate()
	for _, set := range []string{"LocalFlags", "InheritedFlags"} {
		text = strings.ReplaceAll(text, "."+set+".FlagUsages ", template+" ."+set+" ")
	}
	root.SetUsageTemplate(text)
}

// Text returns a flag's description without its placeholder.
func Text(flag *pflag.Flag) string {
	_, text := cut(flag)
	return strings.ReplaceAll(text, "`", "")
}

// cut returns the placeholder at the beginning of a flag's description, if any, and the rest.
func cut(flag *pflag.Flag) (placeholder, text string) {
	if rest, found := strings.CutPrefix(flag.Usage, "`"); found {
		if placeholder, text, found = strings.Cut(rest, "` "); found {
			return placeholder, text
		}
	}
	return "", flag.Usage
}

// flagUsages describes flags, each with its placeholder.
func flagUsages(set *pflag.FlagSet) string {
	shown := pflag.NewFlagSet("", pflag.ContinueOnError)
	shown.SortFlags = set.SortFlags
	set.VisitAll(func(flag *pflag.Flag) { shown.AddFlag(describe(flag)) })
	return shown.FlagUsagesWrapped(Columns)
}

// describe returns a copy of a flag for pflag.FlagSet.FlagUsages, whose value type is the
// placeholder: FlagUsages prints the type of the value if the description contains no placeholder.
func describe(flag *pflag.Flag) *pflag.Flag {
	placeholder, text := cut(flag)
	if placeholder == "" {
		return flag
	}
	shown := *flag
	shown.Value, shown.Usage = value{flag.Value, placeholder}, text
	// how pflag shows a default depends on the type of the value
	switch {
	case flag.DefValue == "[]" || flag.DefValue == "0s":
		shown.DefValue = ""
	case flag.DefValue != "" && flag.Value.Type() == "string":
		shown.DefValue = strconv.Quote(flag.DefValue)
	}
	return &shown
}

// value is a flag's value whose type is the placeholder of the flag.
type value struct {
	pflag.Value
	placeholder string
}

func (v value) Type() string { return v.placeholder }
