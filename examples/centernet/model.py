"""CenterNet on a ResNet-18, as in the paper's experiment but slim: an object is a peak in a map of its class.

Dimensions: N images, K classes, G truths, D detections, H and W the sides of the map, a fourth of the image's.
"""

from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional

from boxscore.parallel import PaddedDetections, PaddedTruths

STRIDE = 4
"""Pixels to a cell of the map."""


class Maps(NamedTuple):
    """What the network says of each cell."""

    heat: torch.Tensor
    """Logits: is the middle of an object of this class here? Shape (N, K, H, W)."""
    size: torch.Tensor
    """Width and height in cells. Shape (N, 2, H, W)."""
    offset: torch.Tensor
    """From the cell's corner to the middle, in cells. Shape (N, 2, H, W)."""


class Block(nn.Module):
    """Two convolutions and a shortcut around them."""

    def __init__(self, num_in: int, num_out: int, stride: int) -> None:
        super().__init__()
        self.first = convolution(num_in, num_out, stride=stride)
        self.second = convolution(num_out, num_out)
        is_same = stride == 1 and num_in == num_out
        self.shortcut = nn.Identity() if is_same else convolution(num_in, num_out, kernel=1, stride=stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Shapes (N, C, H, W) to (N, C', H / stride, W / stride)."""
        return functional.relu(self.second(functional.relu(self.first(x))) + self.shortcut(x))


class CenterNet(nn.Module):
    """Four stages of two blocks, the way back up to a fourth of the image with what was seen on the way down."""

    def __init__(self, num_classes: int, width: int) -> None:
        super().__init__()
        widths = [width, width * 2, width * 4, width * 8]
        self.stem = nn.Sequential(convolution(3, width, stride=2), nn.ReLU(), nn.MaxPool2d(2))
        self.stages = nn.ModuleList(
            nn.Sequential(Block(before, after, 1 if after == width else 2), Block(after, after, 1))
            for before, after in zip([width, *widths[:-1]], widths, strict=True)
        )
        self.ups = nn.ModuleList(
            convolution(deep, shallow) for deep, shallow in zip(widths[:0:-1], widths[-2::-1], strict=True)
        )
        self.hidden = nn.Sequential(nn.Conv2d(width, width * 2, 3, padding=1), nn.ReLU())
        self.heat = nn.Conv2d(width * 2, num_classes, 1)
        self.size = nn.Conv2d(width * 2, 2, 1)
        self.offset = nn.Conv2d(width * 2, 2, 1)
        nn.init.constant_(self.heat.bias, -4.0)  # objects are rare: start by seeing none
        nn.init.constant_(self.size.bias, 5.0)
        nn.init.constant_(self.offset.bias, 0.5)

    def forward(self, image: torch.Tensor) -> Maps:
        """The maps of a batch of images. Shape (N, 3, 4 H, 4 W)."""
        x = self.stem(image)
        seen = []
        for stage in self.stages:
            x = stage(x)
            seen.append(x)
        for up, before in zip(self.ups, seen[-2::-1], strict=True):
            x = functional.relu(functional.interpolate(up(x), size=before.shape[2:], mode="nearest") + before)
        x = self.hidden(x)
        return Maps(self.heat(x), self.size(x), self.offset(x))


def convolution(num_in: int, num_out: int, *, kernel: int = 3, stride: int = 1) -> nn.Sequential:
    """A convolution with batch normalization."""
    return nn.Sequential(
        nn.Conv2d(num_in, num_out, kernel, stride=stride, padding=kernel // 2, bias=False), nn.BatchNorm2d(num_out)
    )


def loss_of(maps: Maps, truths: PaddedTruths) -> torch.Tensor:
    """CenterNet's loss: focal on the heat, absolute error of size and offset at the middles of the truths.

    Difficult truths are learned like others; only dummies are left out.
    """
    num_images, num_classes, height, width = maps.heat.shape
    is_real_NG = truths.labels >= 0
    size_NG2 = (truths.boxes[..., 2:] - truths.boxes[..., :2] + 1) / STRIDE
    middle_NG2 = (truths.boxes[..., 2:] + truths.boxes[..., :2] + 1) / (2 * STRIDE)
    device = truths.boxes.device
    cell_NG2 = torch.minimum(middle_NG2.long(), torch.tensor([width - 1, height - 1], device=device))

    # A bump around each middle, as wide as its object; where bumps of a class meet, the higher one counts.
    x_W, y_H = torch.arange(width, device=device), torch.arange(height, device=device)
    deviation_NG2 = (size_NG2 / 6).clamp(min=0.6)
    across_NGW = -(((x_W - cell_NG2[..., :1]) / deviation_NG2[..., :1]) ** 2) / 2
    down_NGH = -(((y_H - cell_NG2[..., 1:]) / deviation_NG2[..., 1:]) ** 2) / 2
    bump_NGHW = torch.exp(down_NGH[..., :, None] + across_NGW[..., None, :]) * is_real_NG[..., None, None]
    is_class_NGK = functional.one_hot(truths.labels.clamp(min=0), num_classes).bool()
    goal_NKHW = (bump_NGHW[:, :, None] * is_class_NGK[..., None, None]).amax(dim=1)

    heat = maps.heat.float()
    chance = heat.sigmoid()
    found = functional.logsigmoid(heat) * (1 - chance) ** 2 * (goal_NKHW == 1)
    absent = functional.logsigmoid(-heat) * chance**2 * (1 - goal_NKHW) ** 4 * (goal_NKHW < 1)
    num_truths = is_real_NG.sum().clamp(min=1)
    focal = -(found + absent).sum() / num_truths

    place_NG = cell_NG2[..., 1] * width + cell_NG2[..., 0]

    def error(map_N2HW: torch.Tensor, goal_NG2: torch.Tensor) -> torch.Tensor:
        index = place_NG[:, None].expand(-1, 2, -1)
        said_NG2 = map_N2HW.reshape(num_images, 2, -1).gather(2, index).transpose(1, 2)
        return ((said_NG2 - goal_NG2).abs() * is_real_NG[..., None]).sum() / num_truths

    return focal + 0.3 * error(maps.size, size_NG2) + error(maps.offset, middle_NG2 - cell_NG2)


def decode(maps: Maps, num_detections: int) -> PaddedDetections:
    """The highest peaks of each image as boxes, sorted by score; nothing is discarded yet. Shapes (N, D, …)."""
    num_images, _, height, width = maps.heat.shape
    chance_NKHW = maps.heat.sigmoid()
    is_peak_NKHW = functional.max_pool2d(chance_NKHW, 3, stride=1, padding=1) == chance_NKHW
    score_ND, index_ND = (chance_NKHW * is_peak_NKHW).reshape(num_images, -1).topk(num_detections)
    label_ND, place_ND = index_ND // (height * width), index_ND % (height * width)
    index = place_ND[:, None].expand(-1, 2, -1)
    size_ND2, offset_ND2 = (
        each.reshape(num_images, 2, -1).gather(2, index).transpose(1, 2) for each in (maps.size, maps.offset)
    )
    cell_ND2 = torch.stack([place_ND % width, place_ND // width], dim=2)
    middle_ND2, half_ND2 = (cell_ND2 + offset_ND2) * STRIDE, size_ND2.clamp(min=0.25) * STRIDE / 2
    box_ND4 = torch.cat([middle_ND2 - half_ND2, middle_ND2 + half_ND2 - 1], dim=2)  # the last pixel is inside
    return PaddedDetections(box_ND4, label_ND, score_ND, score_ND <= 0)
