"""The classes of pycocotools, lvis, faster-coco-eval and torchvision's references over boxscore's engine."""
