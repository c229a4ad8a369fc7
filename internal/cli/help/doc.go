// Package help prints the help of the commands heartwood and kubectl heartwood. A flag's
// description may begin with a placeholder for the value, in backquotes. The help shows the
// placeholder after the flag's name and not in the description:
//
//	flags.StringVar(&format, "output", "text", "`FORMAT` text or json")
//
//	--output FORMAT   text or json (default "text")
//
// Package pflag would print the placeholder twice, because it treats it as a word of the
// description.
package help
