// Requirements on a similarity policy, and the default index.
//
// A policy knows the shapes of both sides and how similar two of them are. It is all that matching knows of a geometry:
//
//     using Shape = …;                       one row while it is compared; copied freely
//     using Index = NoIndex;                 or another index with the functions of NoIndex
//     using Workspace = NoWorkspace;         or state of a thread between comparisons; default-constructible
//     Shape detection(size_t row) const;     the shape of a detection
//     Shape truth(size_t row) const;         the shape of a truth
//     double area(const Shape&) const;       what decides the area range
//     void prefetch(size_t row) const;       a hint that the shape of a detection will be read soon
//     void compare(const Shape& detection, const Shape& truth, bool is_relative, double least, Workspace&, Use use) const;
//                                            calls `use(similarity)`; relative: to the detection's own size, as with a crowd. Need
//                                            not call it if the similarity is certain to be below `least`, which can often be told
//                                            without the last division
//     Index make_index(double least) const;  for pairs whose similarity is at least `least`
#pragma once

#include <cstdint>

namespace boxscore {

// Two shapes are compared without anything else.
struct NoWorkspace {};

// Every truth of a group is compared with every detection.
struct NoIndex {
    // The index's entry for one group of truths.
    struct Range {};

    // Forgets the groups of the image before.
    void clear() {}

    // Adds the truths first .. end - 1 as a group.
    template <class Shape>
    Range add(const Shape* /* truths */, const uint8_t* /* is_relative */, uint32_t /* first */, uint32_t /* end */) {
        return {};
    }

    // Looks up some detections in a group: `shape_at(i)` is the shape of the i-th of them.
    template <class ShapeAt>
    void look_up(const ShapeAt& /* shape_at */, uint32_t /* num */, Range /* range */) {}

    // Calls `visit` with each truth of a group that may be as similar to the i-th of the detections that were looked up as it must be.
    template <class Shape, class Visit>
    void visit(uint32_t /* i */, const Shape& /* detection */, uint32_t first, uint32_t end, Range /* range */, Visit visit) const {
        for (uint32_t g = first; g < end; ++g) visit(g);
    }
};

}  // namespace boxscore
