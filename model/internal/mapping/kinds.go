package mapping

// Kinds rebuilds a mapping from the arrays of a model file, by its kind. A rebuild checks names and shapes, fails
// (package fail) if they are others, and keeps the data.
var Kinds = map[string]func(arrays []Array) Map{
	"linear":      rebuildLinear,
	"views":       rebuildViews,
	"kernel":      rebuildKernelMap,
	"nystrom":     rebuildNystrom,
	"barycentric": rebuildBarycentric,
	"geodesic":    rebuildGeodesic,
	"tangent":     rebuildTangent,
	"similarity":  rebuildSimilarity,
	"sum":         rebuildSum,
}
