// Masks from pixels, one byte each, and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "masks/runs.h"

namespace boxscore {

// The counts of pixels that stand row by row. Holds the memory that it needs from one mask to the next.
class RowEncoder {
public:
    void encode(const uint8_t* pixels, MaskSize size, Runs& runs);

private:
    struct Change {
        uint32_t column, row;
    };
    void add_changes(const uint8_t* row, const uint8_t* above, uint32_t width, uint32_t y);

    std::vector<Change> changes_;
    std::vector<uint32_t> start_, edges_;
};

// The counts of pixels that stand column by column. As in COCO: a run ends where a byte is not that before it.
void encode_columns(const uint8_t* pixels, MaskSize size, Runs& runs);

// Decodes counts column by column; pixels without a run are off. Returns false if the runs exceed the size.
bool decode_columns(const Runs& runs, MaskSize size, uint8_t* pixels);

// Decodes validated counts row by row.
void decode_rows(const Runs& runs, MaskSize size, uint8_t* pixels);

}  // namespace boxscore
