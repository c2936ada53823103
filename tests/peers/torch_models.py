"""MobileNetV2 and ResNet-18 in PyTorch, as torchvision has them."""
from torch import nn


def unit(inputs, outputs, kernel, stride=1, groups=1, activation=None):
    layers = [nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(outputs)]
    return layers + ([activation(inplace=True)] if activation else [])


class InvertedResidual(nn.Module):
    def __init__(self, inputs, outputs, stride, expansion):
        super().__init__()
        hidden = inputs * expansion
        layers = unit(inputs, hidden, 1, activation=nn.ReLU6) if expansion > 1 else []
        layers += unit(hidden, hidden, 3, stride, hidden, nn.ReLU6) + unit(hidden, outputs, 1)
        self.layers = nn.Sequential(*layers)
        self.is_residual = stride == 1 and inputs == outputs

    def forward(self, x):
        return x + self.layers(x) if self.is_residual else self.layers(x)


def mobilenet_v2(classes=1000):
    layers, channels = unit(3, 32, 3, 2, activation=nn.ReLU6), 32
    for expansion, outputs, repeats, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                                (6, 160, 3, 2), (6, 320, 1, 1)):
        for i in range(repeats):
            layers.append(InvertedResidual(channels, outputs, stride if i == 0 else 1, expansion))
            channels = outputs
    layers += unit(channels, 1280, 1, activation=nn.ReLU6)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, classes))


class BasicBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.layers = nn.Sequential(*unit(inputs, outputs, 3, stride, activation=nn.ReLU), *unit(outputs, outputs, 3))
        changes = stride != 1 or inputs != outputs
        self.shortcut = nn.Sequential(*unit(inputs, outputs, 1, stride)) if changes else nn.Identity()
        self.activation = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.activation(self.layers(x) + self.shortcut(x))


def resnet18(classes=1000):
    layers, channels = unit(3, 64, 7, 2, activation=nn.ReLU) + [nn.MaxPool2d(3, 2, 1)], 64
    for stage in range(4):
        for i in range(2):
            layers.append(BasicBlock(channels, 64 << stage, 2 if stage > 0 and i == 0 else 1))
            channels = 64 << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


MODELS = {"mobilenet_v2": (mobilenet_v2, 96), "resnet18": (resnet18, 64)}  # and the images' size
