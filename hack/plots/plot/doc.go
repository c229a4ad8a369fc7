// Package plot draws measurements as SVG pictures, such as those of docs/bench, and panels of
// dashboards.
//
// A picture shows every run as a mark of its own. A measurement of which only a median and a range
// exist is drawn as such, so a picture never suggests runs that do not exist. Each series has a
// colour and a shape, so that neither a colour-blind reader nor a black and white print loses
// information. A picture contains its own background, and a second set of colours that a browser
// uses in its dark mode; gonum/plot has no second set.
//
// The package is pure: a picture is a function of its figure, byte for byte. hack/plots writes the
// files, and its test compares them with the committed ones.
package plot
